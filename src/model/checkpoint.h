// SPDX-License-Identifier: Apache-2.0
// Checkpoint: an opened model file (GGUF, or a Hugging Face directory), its configuration, and its tensors by
// role with shapes checked and rows in native order. Borrow from it while it lives; immutable, any thread.
// Opening refuses files with tensors that the family does not use: ignoring a bias silently would be a wrong
// model. Not in kernel layouts: see weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "model/config.h"
#include "model/family.h"
#include "tensor/tensor.h"
#include "tensor/weights_digest.h"

namespace isthmus {

// [n, k] row-major in the file's type; rows are row_bytes(dtype, k) each.
struct RawMatrix {
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0;
  std::span<const std::byte> rows;  // borrows from the checkpoint, or from `owned` where rows were reordered
  AlignedBuffer<std::byte> owned;
};

// All values as f32, [n, k]. Errors: kResourceExhausted.
Result<AlignedBuffer<float>> expand(const RawMatrix& m);

class Checkpoint {
 public:
  // `path`: a .gguf file or a directory with config.json and safetensors.
  static Result<Checkpoint> open(const std::filesystem::path& path);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const ModelConfig& config() const { return config_; }
  const TensorTable& tensors() const;  // as stored, for digests
  // What tensors() was mapped from, with the stamps of then.
  const std::vector<WeightFile>& files() const { return files_; }

  // layer: ignored by roles of the whole model. Errors: kCorrupt (missing, or another shape than [n, k]).
  Result<RawMatrix> matrix(TensorRole role, int layer, int64_t n, int64_t k) const;
  // A vector of n values as f32.
  Result<std::vector<float>> vector(TensorRole role, int layer, int64_t n) const;

 private:
  struct Source;  // the reader of either kind of file
  Checkpoint();
  Status check_tensors() const;
  Status complete_config();
  std::string tensor_name(TensorRole role, int layer) const;
  bool interleaved(TensorRole role) const;

  std::unique_ptr<Source> source_;
  const Family* family_ = nullptr;
  ModelConfig config_;
  std::vector<WeightFile> files_;
};

}  // namespace isthmus
