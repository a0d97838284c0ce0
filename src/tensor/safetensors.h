// SPDX-License-Identifier: Apache-2.0
// Reader and writer of the safetensors format: model files, golden data, and the payload of handoff frames
// and block files. u64 header length, JSON header, tensor bytes. Strict: the tensors cover the data exactly
// (no gap, no overlap, nothing behind), names are unique, every size is checked before use. Views borrow the
// bytes. Immutable once parsed: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fs.h"
#include "base/status.h"
#include "tensor/tensor.h"

namespace isthmus {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsLimits {
  uint64_t max_header_bytes = 100'000'000;  // the format's own limit; frames set a smaller one
};

class Safetensors {
 public:
  // Borrows `bytes`. `where` starts every message. Errors: kCorrupt, kUnsupported (dtype), kResourceExhausted
  // (header limit).
  static Result<Safetensors> parse(std::span<const std::byte> bytes, std::string_view where,
                                   const SafetensorsLimits& limits = {});
  // Maps the file and keeps the mapping. Also kIo, kNotFound.
  static Result<Safetensors> open(const std::filesystem::path& path);

  const TensorTable& tensors() const { return tensors_; }            // header order
  const SafetensorsMetadata& metadata() const { return metadata_; }  // "__metadata__"

  std::optional<FileStamp> stamp() const;  // of the mapped file; nullopt when parsed from a span

 private:
  std::optional<MappedFile> mapping_;  // empty when parsed from a span
  TensorTable tensors_;
  SafetensorsMetadata metadata_;
};

// The format's name of a dtype ("BF16"); empty for types it lacks (GGUF block types).
std::string_view safetensors_dtype_name(DType dtype);
std::optional<DType> safetensors_dtype(std::string_view name);

// Length field and header of a file with these tensors, padded with spaces to a multiple of 8, and the
// tensors in the order in which their bytes follow: by element size, largest first (so that each is aligned),
// then by name. Equal content gives equal bytes. Errors: kUnsupported (dtype), kInvalidArgument (data does
// not match the shape, two equal names, name "__metadata__").
struct SafetensorsPlan {
  Bytes head;
  std::vector<const TensorView*> order;  // into the caller's tensors
};
Result<SafetensorsPlan> plan_safetensors(std::span<const TensorView> tensors,
                                         const SafetensorsMetadata& metadata = {});

Result<Bytes> write_safetensors(std::span<const TensorView> tensors,
                                const SafetensorsMetadata& metadata = {});
// Durable (temp file, fsync, rename); tensor bytes are not copied.
Status write_safetensors_file(Fs& fs, const std::filesystem::path& path, std::span<const TensorView> tensors,
                              const SafetensorsMetadata& metadata = {});

}  // namespace isthmus
