// SPDX-License-Identifier: Apache-2.0
// SHA-256 over all tensors of a model: the `weights` field of its identity. Reading a model takes seconds, so
// the result is kept in a cache file beside the stamps (size, mtime, inode) of the files it was computed
// from. Pure but for that file; any thread, any number of processes. Not a digest of the files: metadata and
// layout do not matter, names, types, shapes and bytes do.
#pragma once

#include <filesystem>
#include <span>

#include "base/fs.h"
#include "base/hash.h"
#include "tensor/tensor.h"

namespace isthmus {

// A file that tensors were mapped from, and what it was then.
struct WeightFile {
  std::filesystem::path path;
  FileStamp stamp;
};

// Over the tensors in name order. Per tensor: name, dtype name, rank, dimensions, byte count, bytes; lengths
// as u64, so that no two lists of tensors give the same text.
Digest weights_digest(const TensorTable& tensors);

// The same, from the cache when it knows `files` (those that `tensors` views) with these stamps. A missing,
// damaged or outdated entry is computed and replaced; that it cannot be written is logged, not an error.
Digest cached_weights_digest(const TensorTable& tensors, std::span<const WeightFile> files,
                             const std::filesystem::path& cache_directory);

}  // namespace isthmus
