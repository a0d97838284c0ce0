// SPDX-License-Identifier: Apache-2.0
// Who computed the bytes of a block. Part of every block key: what one source wrote is never served as
// another's. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"

namespace isthmus {

enum class SourceKind : uint8_t {
  kNative = 0,   // the decode engine itself
  kKv = 1,       // a prefill engine's own K/V rows
  kProject = 2,  // a prefill engine's layer inputs through the decoder's norm and K/V weights
};

std::string_view source_kind_name(SourceKind kind);  // "native", "kv", "project"
Result<SourceKind> parse_source_kind(std::string_view name);

struct Source {
  SourceKind kind = SourceKind::kNative;
  Digest producer;  // identity of the prefill engine's weights and arithmetic; all zero for native
  auto operator<=>(const Source&) const = default;
  std::string to_string() const;  // "native" or "project:0123abcd"
};

}  // namespace isthmus
