// SPDX-License-Identifier: Apache-2.0
#include "flow/source.h"

namespace isthmus {

std::string_view source_kind_name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kNative:
      return "native";
    case SourceKind::kKv:
      return "kv";
    case SourceKind::kProject:
      return "project";
  }
  return "unknown";
}

Result<SourceKind> parse_source_kind(std::string_view name) {
  for (const SourceKind kind : {SourceKind::kNative, SourceKind::kKv, SourceKind::kProject}) {
    if (name == source_kind_name(kind)) return kind;
  }
  return Status(Code::kInvalidArgument,
                "source: expected native, kv or project, got '" + std::string(name) + "'");
}

std::string Source::to_string() const {
  std::string s(source_kind_name(kind));
  if (kind != SourceKind::kNative) s += ":" + producer.hex().substr(0, 8);
  return s;
}

}  // namespace isthmus
