// SPDX-License-Identifier: Apache-2.0
#include "model/family.h"

#include <string>

namespace isthmus {

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family* family : {&kLlamaFamily, &kQwen2Family, &kQwen3Family}) {
    if (family->name == name) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->name);
  }
  return Status(Code::kUnsupported,
                "model: architecture: expected one of " + known + ", got '" + std::string(name) + "'");
}

}  // namespace isthmus
