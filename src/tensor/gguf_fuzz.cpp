// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: parsed or refused; what was parsed can be read to the last byte and written
// again.
#include <cstddef>
#include <cstdint>

#include "kernels/block_format.h"
#include "tensor/gguf.h"
#include "tensor/gguf_writer.h"

namespace {

using namespace isthmus;

void read_all_metadata(const GgufFile& file) {
  for (const GgufFile::Entry& e : file.metadata()) {
    (void)file.get_u32(e.key);
    (void)file.get_f32(e.key);
    (void)file.get_bool(e.key);
    (void)file.get_string(e.key);
    (void)file.get_i32_array(e.key);
    (void)file.get_f32_array(e.key);
    const Result<std::vector<std::string_view>> strings = file.get_string_array(e.key);
    if (!strings.ok()) continue;
    size_t total = 0;
    for (const std::string_view s : *strings) total += s.size();
    ISTHMUS_CHECK(total <= e.value.raw.size());
  }
}

void expand_first_rows(const GgufFile& file) {
  for (const TensorView& t : file.tensors()) {
    if (t.dtype == DType::kI8 || t.dtype == DType::kI32 || t.dtype == DType::kI64) continue;
    std::vector<float> row(static_cast<size_t>(t.row_elements()));
    kernels::dequantize_row(t.dtype, t.row(t.rows() - 1).data(), t.row_elements(), row.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<GgufFile> file = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) return 0;
  read_all_metadata(*file);
  expand_first_rows(*file);

  GgufWriter writer;
  writer.copy_metadata(*file);
  for (const TensorView& t : file->tensors()) writer.add_tensor(t);
  const Result<Bytes> copy = writer.to_bytes();
  ISTHMUS_CHECK(copy.ok());
  const Result<GgufFile> again = GgufFile::parse(*copy, "copy");
  ISTHMUS_CHECK(again.ok());
  ISTHMUS_CHECK(again->tensors().size() == file->tensors().size());
  return 0;
}
