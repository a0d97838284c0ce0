// SPDX-License-Identifier: Apache-2.0
// What `isthmus inspect` says about each kind of file or folder, as one JSON object for render.h. Reads only;
// takes no lock, so a store may be in use. Damage is part of the description ("damaged": why), not an error.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/json.h"
#include "flow/plane.h"
#include "tensor/tensor.h"

namespace isthmus {

Result<Json> describe_block(const std::filesystem::path& file);
Result<Json> describe_store(const std::filesystem::path& directory);
Result<Json> describe_recording(const std::filesystem::path& file);  // of a handoff
// GGUF file or Hugging Face folder. `cache`: where weight digests are kept. A model that this version cannot
// run is described by its tensors, with the reason.
Result<Json> describe_model(const std::filesystem::path& path, const std::filesystem::path& cache);
// A projection pack, or any other safetensors file by its tensors.
Result<Json> describe_safetensors(const std::filesystem::path& file);

bool is_store_directory(const std::filesystem::path& directory);

// Number of tensors and bytes of each element type.
Json tensor_types_json(const std::vector<TensorView>& tensors);

}  // namespace isthmus
