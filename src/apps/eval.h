// SPDX-License-Identifier: Apache-2.0
// The two measurements of `isthmus eval`: our arithmetic against another engine's logits, and bridged answers
// against a reference (eval_pairs.cpp). Each returns what it found as one JSON object and shows progress on
// standard error. One thread; heavy: they load models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace isthmus {

struct ReferenceLogitsOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> files;  // safetensors: ids, logits, first
};
// Errors: those of the model, kInvalidArgument (a file that does not fit the model), kCorrupt.
Result<Json> eval_reference_logits(const ReferenceLogitsOptions& o);

}  // namespace isthmus
