// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: parsed or refused; what was parsed covers its data exactly, and is read
// back equal once written.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tensor/safetensors.h"

using namespace isthmus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<Safetensors> file =
      Safetensors::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) return 0;
  size_t covered = 0;
  for (const TensorView& t : file->tensors()) {
    covered += t.data.size();
    for (int64_t r = 0; r < std::min<int64_t>(t.rows(), 4); ++r)
      ISTHMUS_CHECK(t.row(r).size() <= t.data.size());
  }
  ISTHMUS_CHECK(covered <= size);

  const Result<Bytes> copy = write_safetensors(file->tensors().all(), file->metadata());
  ISTHMUS_CHECK(copy.ok());
  const Result<Safetensors> again = Safetensors::parse(*copy, "copy");
  ISTHMUS_CHECK(again.ok());
  ISTHMUS_CHECK(again->metadata() == file->metadata());
  for (const TensorView& t : file->tensors()) {
    const TensorView* other = again->tensors().find(t.name);
    ISTHMUS_CHECK(other != nullptr && other->dtype == t.dtype && other->shape == t.shape);
    ISTHMUS_CHECK(std::equal(t.data.begin(), t.data.end(), other->data.begin(), other->data.end()));
  }
  return 0;
}
