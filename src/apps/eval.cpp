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

constexpr const char* kHelp =
    "Two uses.\n\n"
    "Bridges (--prefill, --decoder, --documents): what does an answer lose, or gain, when another model "
    "reads\n"
    "the prompt? The reference is --model with its values in f32. For every decoder alone, and behind every\n"
    "prefill model in both capture modes, over the same documents: KL(reference || it) in nats, how often "
    "both\n"
    "rank the same token first, and how many tokens of the greedy answers are equal; the same against the\n"
    "decoder alone; and the error of the bridged K and V rows. All models are loaded at once.\n"
    "  isthmus convert --to q4_0 --model M.gguf q4.gguf\n"
    "  isthmus eval --model M.gguf --prefill M.gguf --decoder q4.gguf --documents "
    "\"$(scripts/fetch-documents)\"\n\n"
    "Another engine (--reference-logits FILE): FILE is a safetensors file with ids (I32 [n]), logits (F32, "
    "F16\n"
    "or BF16 [m, vocabulary]) of the tokens first to first + m - 1 (each row: what follows that token), and\n"
    "first (a tensor or metadata; 0 without it). Compared twice: all tokens in prompt arithmetic, and the\n"
    "compared ones in step arithmetic, as if they had been generated.";

struct EvalOptions {
  PairOptions pairs;  // `reference` is --model in both uses
  std::vector<std::filesystem::path> reference_logits;
  std::string prefill_weights = "bf16";
  std::filesystem::path json;
  int threads = 0;
};

Status write_json(const std::filesystem::path& path, const Json& result) {
  PosixFs fs;
  const std::string text = dump_json(result) + "\n";
  const std::array<std::span<const std::byte>, 1> parts = {as_byte_span(text)};
  return write_file_durably(fs, std::filesystem::absolute(path), parts);
}

Status check_usage(const EvalOptions& o) {
  // Known before minutes of work, not after.
  if (!o.json.empty()) TRY(NewFile::create(std::filesystem::absolute(o.json)).status());
  if (!o.reference_logits.empty()) return {};
  if (o.pairs.prefills.empty() || o.pairs.decoders.empty() || o.pairs.documents.empty())
    return {Code::kInvalidArgument,
            "eval: expected --reference-logits, or --prefill, --decoder and --documents"};
  return {};
}

int run_eval(const EvalOptions& o) {
  if (const Status usage = check_usage(o); !usage.ok()) return fail(usage);
  kernels::use_threads(o.threads);
  const bool pairs = o.reference_logits.empty();
  const auto result =
      pairs ? eval_pairs(o.pairs)
            : eval_reference_logits({.model = o.pairs.reference,
                                     .files = o.reference_logits,
                                     .prompt_weights = *parse_prompt_weights(o.prefill_weights)});
  if (!result.ok()) return fail(result.status());
  show(pairs ? pair_tables(*result) : *result, false);
  if (!o.json.empty()) {
    if (const Status written = write_json(o.json, *result); !written.ok()) return fail(written);
  }
  return 0;
}

}  // namespace

Command add_eval(CLI::App& parent) {
  auto o = std::make_shared<EvalOptions>();
  o->pairs.reference = default_model();
  CLI::App* app = parent.add_subcommand("eval", "measure how far answers are from what they should be");
  app->footer(kHelp);
  app->add_option("--model", o->pairs.reference,
                  "GGUF file or Hugging Face folder: the reference, or what is compared with logits")
      ->capture_default_str();
  app->add_option("--prefill", o->pairs.prefills, "a model that reads prompts (repeatable)")
      ->allow_extra_args(false);
  app->add_option("--decoder", o->pairs.decoders, "a model that answers (repeatable)")
      ->allow_extra_args(false);
  app->add_option("--documents", o->pairs.documents,
                  "folder of text files; scripts/fetch-documents makes one");
  app->add_option("--prompt-tokens", o->pairs.prompt_tokens, "of each document, read as the prompt")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24))
      ->capture_default_str();
  app->add_option("--continuation-tokens", o->pairs.continuation_tokens,
                  "that follow, compared position by position; also the length of greedy answers")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))
      ->capture_default_str();
  app->add_option("--reference-logits", o->reference_logits, "another engine's logits (repeatable)")
      ->allow_extra_args(false)
      ->excludes("--prefill")
      ->excludes("--decoder")
      ->excludes("--documents");
  add_prompt_form_option(*app, o->prefill_weights)->needs("--reference-logits");
  app->add_option("--json", o->json, "write the whole result to this file as one JSON object");
  app->add_option("--threads", o->threads, "compute threads; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  return {app, [o] { return run_eval(*o); }};
}

}  // namespace isthmus
