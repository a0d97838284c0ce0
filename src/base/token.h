// SPDX-License-Identifier: Apache-2.0
// TokenId: an index into a model's vocabulary. A value; any thread. Ids travel between the roles, text never
// does. Not range-checked: whoever takes ids from outside compares them with V.
#pragma once

#include <cstdint>

namespace isthmus {

using TokenId = int32_t;

}  // namespace isthmus
