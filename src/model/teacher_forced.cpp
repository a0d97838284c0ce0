// SPDX-License-Identifier: Apache-2.0
#include "model/teacher_forced.h"

#include <algorithm>
#include <vector>

#include "kernels/step_linear.h"

namespace isthmus {
namespace {

constexpr size_t kLogitsChunk = 64;  // 12 MiB of logits for a vocabulary of 49,152

// Calls `run(ids of a chunk, room for their logits)` chunk by chunk and hands the rows on.
template <typename Run>
Status force(const Model& model, std::span<const TokenId> ids, const Sequence& seq, size_t chunk,
             const LogitsRow& row, const Run& run) {
  const auto vocab = static_cast<size_t>(model.config().vocab);
  std::vector<float> logits(std::min(chunk, ids.size()) * vocab);
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const auto part = ids.subspan(at, std::min(chunk, ids.size() - at));
    const int64_t first = seq.length();
    TRY(run(part, logits.data()));
    for (size_t i = 0; i < part.size(); ++i) {
      TRY(row(first + static_cast<int64_t>(i), std::span(logits).subspan(i * vocab, vocab)));
    }
  }
  return {};
}

}  // namespace

Status read_prompt(Model& model, std::span<const TokenId> ids, Sequence& seq, LayerTap* tap,
                   int64_t chunk_tokens, const std::function<Status(int64_t)>& after_chunk) {
  const auto chunk = static_cast<size_t>(chunk_tokens);
  for (size_t at = 0; at < ids.size(); at += chunk) {
    TRY(model.prompt(ids.subspan(at, std::min(chunk, ids.size() - at)), seq, tap, {}));
    if (after_chunk) TRY(after_chunk(seq.length()));
  }
  return {};
}

Status force_prompt(Model& model, std::span<const TokenId> ids, Sequence& seq, const LogitsRow& row) {
  return force(model, ids, seq, kLogitsChunk, row, [&](std::span<const TokenId> part, float* logits) {
    return model.prompt_logits(part, seq, logits);
  });
}

Status force_steps(Model& model, std::span<const TokenId> ids, Sequence& seq, const LogitsRow& row) {
  std::vector<StepToken> rows;
  return force(model, ids, seq, kernels::kMaxStepRows, row,
               [&](std::span<const TokenId> part, float* logits) {
                 rows.clear();
                 for (const TokenId id : part) rows.push_back({id, &seq});
                 return model.step(rows, logits);
               });
}

}  // namespace isthmus
