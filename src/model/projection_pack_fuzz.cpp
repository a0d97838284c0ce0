// SPDX-License-Identifier: Apache-2.0
// Any bytes as a projection pack: a status, never a crash.
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/projection_pack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto pack = isthmus::load_projection_pack(std::as_bytes(std::span(data, size)), "fuzz");
  (void)pack.ok();
  return 0;
}
