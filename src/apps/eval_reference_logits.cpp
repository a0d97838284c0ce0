// SPDX-License-Identifier: Apache-2.0
// eval --reference-logits: the same tokens through our model, and how far its distributions are from those
// that another engine gave.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "apps/eval.h"
#include "apps/eval_scores.h"
#include "apps/progress.h"
#include "base/statistics.h"
#include "kernels/block_format.h"
#include "model/teacher_forced.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

// One file of another engine: what it said after each of the tokens [first, first + rows).
struct ReferenceFile {
  stdfs::path path;
  Safetensors file;
  std::vector<TokenId> ids;
  const TensorView* logits = nullptr;  // [rows, V], in `file`
  int64_t first = 0;

  int64_t rows() const { return logits->shape[0]; }
  std::span<const TokenId> head() const { return std::span(ids).first(static_cast<size_t>(first)); }
  std::span<const TokenId> compared() const {
    return std::span(ids).subspan(static_cast<size_t>(first), static_cast<size_t>(rows()));
  }
};

Status unfit(const stdfs::path& path, const std::string& what) {
  return {Code::kInvalidArgument, path.string() + ": " + what};
}

// A tensor named "first" of one integer, or metadata of that name; 0 without both.
Result<int64_t> first_position(const ReferenceFile& f) {
  if (const TensorView* t = f.file.tensors().find("first"); t != nullptr) {
    if (t->elements() == 1 && t->dtype == DType::kI64) {
      int64_t value = 0;
      std::memcpy(&value, t->data.data(), sizeof value);
      return value;
    }
    if (t->elements() == 1 && t->dtype == DType::kI32) {
      int32_t value = 0;
      std::memcpy(&value, t->data.data(), sizeof value);
      return int64_t{value};
    }
    return unfit(f.path, "tensor 'first': expected one I32 or I64 value");
  }
  const auto it = f.file.metadata().find("first");
  if (it == f.file.metadata().end()) return int64_t{0};
  int64_t value = 0;
  const char* end = it->second.data() + it->second.size();
  const auto [at, error] = std::from_chars(it->second.data(), end, value);
  if (error != std::errc() || at != end)
    return unfit(f.path, "metadata 'first': expected a number, got " + quote_name(it->second));
  return value;
}

Status read_logits(ReferenceFile& f, int64_t vocab) {
  ASSIGN_OR_RETURN(f.logits, f.file.tensors().get("logits"));
  const DType dtype = f.logits->dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
    return unfit(f.path, "logits: expected F32, F16 or BF16, got " + std::string(dtype_info(dtype).name));
  if (f.logits->shape.size() != 2 || f.logits->shape[1] != vocab || f.logits->shape[0] == 0) {
    return unfit(
        f.path, "logits: expected [rows, " + std::to_string(vocab) + "], got " + shape_text(f.logits->shape));
  }
  ASSIGN_OR_RETURN(f.first, first_position(f));
  const auto tokens = static_cast<int64_t>(f.ids.size());
  if (f.first < 0 || f.first > tokens - f.rows()) {
    return unfit(f.path, "rows for tokens " + std::to_string(f.first) + " to " +
                             std::to_string(f.first + f.rows() - 1) + ", but there are " +
                             std::to_string(tokens) + " ids");
  }
  return {};
}

Result<ReferenceFile> open_reference(const stdfs::path& path, const Model& model) {
  ReferenceFile f;
  f.path = path;
  ASSIGN_OR_RETURN(f.file, Safetensors::open(path));
  ASSIGN_OR_RETURN(const TensorView* ids, f.file.tensors().get("ids"));
  if (ids->dtype != DType::kI32 || ids->shape.size() != 1)
    return unfit(path, "ids: expected I32 of one dimension");
  f.ids.resize(static_cast<size_t>(ids->elements()));
  if (!f.ids.empty()) std::memcpy(f.ids.data(), ids->data.data(), ids->data.size());
  if (static_cast<int64_t>(f.ids.size()) > model.max_positions()) {
    return unfit(path, "ids: expected at most " + std::to_string(model.max_positions()) + ", got " +
                           std::to_string(f.ids.size()));
  }
  TRY(read_logits(f, model.config().vocab));
  return f;
}

// What one arithmetic gave over all files.
struct Agreement {
  std::vector<std::vector<double>> kl;  // per file
  int64_t same_choice = 0;

  Json json() const {
    std::vector<double> all;
    for (const auto& file : kl) all.insert(all.end(), file.begin(), file.end());
    return {{"positions", all.size()},
            {"kl_mean", mean(all)},
            {"kl_p95", percentile(all, 0.95)},
            {"kl_max", percentile(all, 1)},
            {"top1_agreement", static_cast<double>(same_choice) / static_cast<double>(all.size())}};
  }
};

class Comparison {
 public:
  Comparison(Model& model, KvPool& pool, int64_t total_rows)
      : model_(model), pool_(pool), total_rows_(total_rows), progress_("eval") {}

  // Every token in prompt arithmetic.
  Status prompt(const ReferenceFile& f) {
    Sequence seq(pool_);
    TRY(read_prompt(model_, f.head(), seq, nullptr, kChunkTokens, {}));
    prompt_.kl.emplace_back();
    return force_prompt(model_, f.compared(), seq, row_into(f, prompt_, "prompt arithmetic"));
  }

  // The tokens before the first row are the prompt, all others as if they had been generated.
  Status steps(const ReferenceFile& f) {
    Sequence seq(pool_);
    TRY(read_prompt(model_, f.head(), seq, nullptr, kChunkTokens, {}));
    step_.kl.emplace_back();
    return force_steps(model_, f.compared(), seq, row_into(f, step_, "step arithmetic"));
  }

  Json prompt_json() const { return prompt_.json(); }
  Json step_json() const { return step_.json(); }

 private:
  LogitsRow row_into(const ReferenceFile& f, Agreement& into, const char* doing) {
    return [this, &f, &into, doing](int64_t position, std::span<const float> ours) -> Status {
      expected_.resize(ours.size());
      const TensorView& t = *f.logits;
      kernels::dequantize_row(t.dtype, t.row(position - f.first).data(), t.row_elements(), expected_.data());
      const Prediction right = Prediction::of(expected_), other = Prediction::of(ours);
      const double kl = kl_divergence(right.log_p, other.log_p);
      if (!std::isfinite(kl)) {
        return {Code::kCorrupt,
                f.path.string() + ": token " + std::to_string(position) + ": the divergence is not finite"};
      }
      into.kl.back().push_back(kl);
      into.same_choice += right.choice == other.choice ? 1 : 0;
      progress_.update(doing, ++done_rows_, total_rows_);
      return {};
    };
  }

  Model& model_;
  KvPool& pool_;
  const int64_t total_rows_;
  int64_t done_rows_ = 0;
  Progress progress_;
  std::vector<float> expected_;
  Agreement prompt_, step_;
};

}  // namespace

Result<Json> eval_reference_logits(const ReferenceLogitsOptions& o) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   Model::load(o.model, {.prompt_weights = o.prompt_weights}));
  std::vector<ReferenceFile> files;
  int64_t rows = 0, longest = 0;
  Json listed = Json::array();
  for (const stdfs::path& path : o.files) {
    ASSIGN_OR_RETURN(ReferenceFile f, open_reference(path, *model));
    rows += f.rows();
    longest = std::max(longest, static_cast<int64_t>(f.ids.size()));
    listed.push_back(
        {{"file", path.string()}, {"ids", f.ids.size()}, {"first", f.first}, {"positions", f.rows()}});
    files.push_back(std::move(f));
  }
  ASSIGN_OR_RETURN(KvPool pool, KvPool::create(model->kv_shape(), longest));
  Comparison comparison(*model, pool, 2 * rows);
  for (const ReferenceFile& f : files) {
    TRY(comparison.prompt(f));
    TRY(comparison.steps(f));
  }
  return Json{{"model", o.model.string()},
              {"prompt_weights", prompt_weights_name(o.prompt_weights)},
              {"files", std::move(listed)},
              {"prompt_arithmetic", comparison.prompt_json()},
              {"step_arithmetic", comparison.step_json()}};
}

}  // namespace isthmus
