// SPDX-License-Identifier: Apache-2.0
// Who a native prefill engine is: everything that determines the bits of the rows it computes. Its digest
// labels the blocks. Pure function; any thread. Chunk size and thread count are not part of it: rows do not
// depend on them.
#pragma once

#include <string_view>

#include "flow/identity.h"
#include "model/config.h"

namespace isthmus {

struct ProducerFacts {
  Digest weights;               // of all tensors of the model file
  std::string_view arithmetic;  // prompt_arithmetic()
  std::string_view isa_rung;    // name of the rung whose kernels run
};
Identity producer_identity(const ModelConfig& config, const ProducerFacts& facts);

}  // namespace isthmus
