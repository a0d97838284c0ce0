// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_metadata.h"

#include <string>

namespace isthmus {

Json gguf_scalars(const GgufFile& file) {
  Json out = Json::object();
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (entry.value.is_array) continue;
    const std::string key(entry.key);
    switch (entry.value.element) {
      case GgufType::kF32:
      case GgufType::kF64:
        // A double beyond f32 is no sensible constant: read as absent, which its reader then refuses.
        if (const Result<float> v = file.get_f32(key); v.ok()) out[key] = static_cast<double>(*v);
        break;
      case GgufType::kBool:
        if (const Result<bool> v = file.get_bool(key); v.ok()) out[key] = *v;
        break;
      case GgufType::kString:
        if (const Result<std::string_view> v = file.get_string(key); v.ok()) out[key] = std::string(*v);
        break;
      case GgufType::kArray:
        break;
      default:
        if (const Result<int64_t> v = file.get_i64(key); v.ok()) out[key] = *v;
    }
  }
  return out;
}

}  // namespace isthmus
