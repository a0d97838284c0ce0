// SPDX-License-Identifier: Apache-2.0
// A model directory as the Hugging Face hub lays it out: config.json and model.safetensors, or the shards
// that model.safetensors.index.json names. Maps the files; views are valid while the object lives. Immutable:
// any thread. Knows no model family and reads no tokenizer.
#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tensor/safetensors.h"
#include "tensor/tensor.h"
#include "tensor/weights_digest.h"

namespace isthmus {

class HfDirectory {
 public:
  // model.safetensors wins over an index, as in the hub's own library. Index and shards must agree: every
  // tensor of the index lies in the shard it names, and no shard has a tensor that the index does not place
  // there. Shard names are plain file names. Errors: kNotFound (directory, config.json, a shard), kCorrupt,
  // kUnsupported (dtype), kIo.
  static Result<HfDirectory> open(const std::filesystem::path& directory);

  const Json& config() const { return config_; }  // an object
  const TensorTable& tensors() const { return tensors_; }
  const std::vector<WeightFile>& weight_files() const { return weight_files_; }

 private:
  Status open_single(const std::filesystem::path& file);
  Status open_shards(const std::filesystem::path& directory, const std::filesystem::path& index_file);

  Json config_;
  std::vector<Safetensors> shards_;  // own the mappings
  std::vector<WeightFile> weight_files_;
  TensorTable tensors_;
};

}  // namespace isthmus
