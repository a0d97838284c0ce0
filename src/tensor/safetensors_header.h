// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file, read event by event: no document tree, nothing accepted that the
// format does not have (unknown fields, repeated fields, fractions, deeper nesting). Used by safetensors.cpp
// only. Pure function; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/safetensors.h"

namespace isthmus {

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    uint64_t begin = 0;  // of its bytes, counted from the end of the header
    uint64_t end = 0;
  };
  std::vector<Tensor> tensors;  // header order
  SafetensorsMetadata metadata;
};

// Errors: kCorrupt, kUnsupported (dtype); messages start with `where`.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view where);

}  // namespace isthmus
