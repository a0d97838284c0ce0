// SPDX-License-Identifier: Apache-2.0
// How prompt arithmetic keeps the weights that only prompts are multiplied with. Values; any thread. K and V
// projections are bf16 in every form: they are the decoder's own, which capture on another box computes with
// the same code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus {

enum class PromptWeights : uint8_t {
  kBf16,
  kInt8,  // one scale per output, activations in int8 per token: faster, coarser
  kFp8,   // the values of an FP8 checkpoint (e4m3, 128 x 128 block scales), multiplied as bf16
};

inline std::string_view prompt_weights_name(PromptWeights w) {
  switch (w) {
    case PromptWeights::kInt8:
      return "int8";
    case PromptWeights::kFp8:
      return "fp8";
    case PromptWeights::kBf16:
      break;
  }
  return "bf16";
}

inline std::optional<PromptWeights> parse_prompt_weights(std::string_view name) {
  for (const PromptWeights w : {PromptWeights::kBf16, PromptWeights::kInt8, PromptWeights::kFp8}) {
    if (name == prompt_weights_name(w)) return w;
  }
  return std::nullopt;
}

// "prompt-bf16-2": part of identities. Its number changes whenever prompt rows change in any bit on the same
// weights and rung.
inline std::string prompt_arithmetic(PromptWeights w) {
  return "prompt-" + std::string(prompt_weights_name(w)) + "-2";
}

}  // namespace isthmus
