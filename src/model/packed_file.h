// SPDX-License-Identifier: Apache-2.0
// Prompt weights as the GEMM wants them, kept in a file: a second start maps it instead of expanding and
// packing the model again, and processes on one machine share its memory. A safetensors file of byte tensors,
// one per matrix, named "<matrix> <layout>"; its metadata says of which weights it is, and has the checksum
// of all bytes. Only a cache: whatever is wrong with it, the model is packed as if it were not there.
// Reading: any thread, immutable. Not for step weights: they lie in huge pages, which a mapped file does not.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/gemm.h"
#include "tensor/safetensors.h"

namespace isthmus {

struct PackedFileName {
  std::filesystem::path path;   // empty: no file
  std::string key;              // what the packed values depend on: digest of the weights, arithmetic
  std::filesystem::path model;  // the file or folder that it was packed from; absolute
};

struct NamedMatrix {
  std::string name;
  const kernels::PackedMatrix* matrix = nullptr;
};

class PackedFile {
 public:
  // Checks key and checksum. kNotFound: none there, or of other weights. kCorrupt, kIo: damaged.
  static Result<PackedFile> open(const PackedFileName& name);

  // Borrows from this object. nullopt: not in the file, or laid out for another CPU or library.
  std::optional<kernels::PackedMatrix> find(const std::string& matrix, DType dtype, int64_t n,
                                            int64_t k) const;

 private:
  explicit PackedFile(Safetensors file) : file_(std::move(file)) {}
  Safetensors file_;
};

// Replaces the file, whole or not at all; files beside it whose model is gone are removed. Nothing is
// written, with kUnavailable, while another process writes it, and with kResourceExhausted where less than
// `floor_bytes` of the disk would be left.
Status write_packed_file(const PackedFileName& name, std::span<const NamedMatrix> matrices,
                         uint64_t floor_bytes = uint64_t{2} << 30);

}  // namespace isthmus
