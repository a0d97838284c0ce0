// SPDX-License-Identifier: Apache-2.0
// isthmus eval: how far what we compute is from what is held to be right.
#include <array>
#include <memory>
#include <string>

#include "apps/command.h"
#include "apps/eval.h"
#include "apps/render.h"
#include "base/fs.h"
#include "base/hash.h"
#include "kernels/threads.h"

namespace isthmus {
namespace {

struct EvalOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> reference_logits;
  std::filesystem::path json;
  int threads = 0;
};

Status write_json(const std::filesystem::path& path, const Json& result) {
  PosixFs fs;
  const std::string text = dump_json(result) + "\n";
  const std::array<std::span<const std::byte>, 1> parts = {as_byte_span(text)};
  return write_file_durably(fs, std::filesystem::absolute(path), parts);
}

Result<Json> evaluate(const EvalOptions& o) {
  return eval_reference_logits({.model = o.model, .files = o.reference_logits});
}

int run_eval(const EvalOptions& o) {
  kernels::use_threads(o.threads);
  const auto result = evaluate(o);
  if (!result.ok()) return fail(result.status());
  show(*result, false);
  if (!o.json.empty()) {
    if (const Status written = write_json(o.json, *result); !written.ok()) return fail(written);
  }
  return 0;
}

}  // namespace

Command add_eval(CLI::App& parent) {
  auto o = std::make_shared<EvalOptions>();
  o->model = default_model();
  CLI::App* app = parent.add_subcommand("eval", "measure how far answers are from what they should be");
  app->footer(
      "--reference-logits FILE compares this model with another engine's logits of the same tokens. FILE is "
      "a\n"
      "safetensors file: ids (I32 [n]), logits (F32, F16 or BF16 [m, vocabulary]) of the tokens first to\n"
      "first + m - 1 (each row: what follows that token), and first (a tensor or metadata; 0 without it).\n"
      "Twice: all tokens in prompt arithmetic, and the compared tokens in step arithmetic, as if generated.\n"
      "KL is KL(reference || ours) in nats; top1_agreement is the share of positions where both rank the "
      "same\n"
      "token first.");
  app->add_option("--model", o->model, "GGUF file or Hugging Face folder")->capture_default_str();
  app->add_option("--reference-logits", o->reference_logits, "another engine's logits (repeatable)")
      ->required()
      ->allow_extra_args(false);
  app->add_option("--json", o->json, "write the result to this file as one JSON object, too");
  app->add_option("--threads", o->threads, "compute threads; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  return {app, [o] { return run_eval(*o); }};
}

}  // namespace isthmus
