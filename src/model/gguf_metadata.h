// SPDX-License-Identifier: Apache-2.0
// GGUF metadata as the flat JSON object that the configuration readers take: the scalar entries under their
// own keys. Pure function; any thread. Arrays (vocabularies, merges) are left out: text/ reads those from the
// file.
#pragma once

#include "base/json.h"
#include "tensor/gguf.h"

namespace isthmus {

Json gguf_scalars(const GgufFile& file);

}  // namespace isthmus
