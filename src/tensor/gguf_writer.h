// SPDX-License-Identifier: Apache-2.0
// Writes GGUF version 3 files: metadata copied from another file or set here, and tensors given as views.
// Borrows tensor bytes until the file is written and copies none of them; metadata are copied. One thread.
// Converts nothing: see kernels/block_format.h.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fs.h"
#include "base/status.h"
#include "tensor/gguf.h"
#include "tensor/tensor.h"

namespace isthmus {

class GgufWriter {
 public:
  void copy_metadata(const GgufFile& source);  // every key but general.alignment, in its order

  // Replaces the value of a key that exists, in place; else appends.
  void set_u32(std::string_view key, uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_string_array(std::string_view key, std::span<const std::string> values);

  void add_tensor(const TensorView& tensor) { tensors_.push_back(tensor); }

  // Errors: kInvalidArgument (name, rank, data not matching the shape), kUnsupported (dtype), kIo,
  // kResourceExhausted.
  Result<Bytes> to_bytes() const;
  Status write_file(Fs& fs, const std::filesystem::path& path) const;  // durable: temp file, fsync, rename

 private:
  void set(std::string_view key, GgufType type, Bytes payload);
  Result<Bytes> header() const;
  Status check_names() const;

  struct Entry {
    std::string key;
    Bytes encoded;  // type and value
  };
  std::vector<Entry> metadata_;
  std::map<std::string, size_t, std::less<>> by_key_;
  std::vector<TensorView> tensors_;
};

}  // namespace isthmus
