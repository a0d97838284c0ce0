// SPDX-License-Identifier: Apache-2.0
// isthmus diff-state: two safetensors files, tensor by tensor. For saved layer inputs, caches and logits of
// two runs that ought to agree.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <tuple>

#include "apps/command.h"
#include "apps/render.h"
#include "apps/value_diff.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

constexpr size_t kShown = 12;

struct DiffStateOptions {
  std::filesystem::path a, b;
  bool json = false;
};

struct Totals {
  Json rows = Json::array();  // of tensors that both files have in one shape
  Json only_a = Json::array(), only_b = Json::array(), reshaped = Json::array();
  int64_t identical = 0;
};

void compare(const TensorView& a, const TensorView* b, Totals& t) {
  if (b == nullptr) {
    t.only_a.push_back(a.name);
    return;
  }
  if (a.dtype != b->dtype || a.shape != b->shape) {
    t.reshaped.push_back(a.name + ": " + std::string(dtype_info(a.dtype).name) + " " + shape_text(a.shape) +
                         " against " + std::string(dtype_info(b->dtype).name) + " " + shape_text(b->shape));
    return;
  }
  const ValueDiff d = diff_values(a.dtype, a.data, b->data);
  t.identical += d.identical() ? 1 : 0;
  t.rows.push_back({{"tensor", a.name},
                    {"dtype", dtype_info(a.dtype).name},
                    {"shape", shape_text(a.shape)},
                    {"values", d.values},
                    {"bit_exact", d.equal_bits},
                    {"max_abs", d.max_abs},
                    {"relative", d.relative},
                    {"non_finite", d.non_finite}});
}

bool worse(const Json& x, const Json& y) {
  const auto rank = [](const Json& j) {
    return std::tuple(j["non_finite"].get<int64_t>(), j["relative"].get<double>());
  };
  return rank(x) > rank(y);
}

Result<Json> diff(const DiffStateOptions& o) {
  ASSIGN_OR_RETURN(const Safetensors a, Safetensors::open(o.a));
  ASSIGN_OR_RETURN(const Safetensors b, Safetensors::open(o.b));
  Totals t;
  for (const TensorView* tensor : a.tensors().in_name_order())
    compare(*tensor, b.tensors().find(tensor->name), t);
  for (const TensorView* tensor : b.tensors().in_name_order()) {
    if (a.tensors().find(tensor->name) == nullptr) t.only_b.push_back(tensor->name);
  }
  std::vector<Json> worst;
  for (const Json& row : t.rows) {
    if (row["bit_exact"] != row["values"]) worst.push_back(row);
  }
  std::stable_sort(worst.begin(), worst.end(), worse);
  if (worst.size() > kShown) worst.resize(kShown);
  const auto compared = static_cast<int64_t>(t.rows.size());
  const bool identical =
      t.identical == compared && t.only_a.empty() && t.only_b.empty() && t.reshaped.empty();
  return Json{{"identical", identical},
              {"tensors_compared", compared},
              {"tensors_bit_exact", t.identical},
              {"only_in_a", std::move(t.only_a)},
              {"only_in_b", std::move(t.only_b)},
              {"different_shape", std::move(t.reshaped)},
              {"worst", worst},
              {"tensors", std::move(t.rows)}};
}

int run_diff_state(const DiffStateOptions& o) {
  const auto result = diff(o);
  if (!result.ok()) return fail(result.status());
  show(*result, o.json, {"tensors"});
  return (*result)["identical"].get<bool>() ? 0 : 1;
}

}  // namespace

Command add_diff_state(CLI::App& parent) {
  auto o = std::make_shared<DiffStateOptions>();
  CLI::App* app = parent.add_subcommand("diff-state", "compare two safetensors files, tensor by tensor");
  app->footer(
      "Prints how many values are bit-exact, and the 12 worst of the tensors that differ, by relative error\n"
      "(norm of the difference over the norm of A). Exit 0: identical, 1: not.");
  app->add_option("a", o->a, "the file that is held to be right")->required();
  app->add_option("b", o->b, "the file to compare with it")->required();
  app->add_flag("--json", o->json, "one JSON object with every tensor");
  return {app, [o] { return run_diff_state(*o); }};
}

}  // namespace isthmus
