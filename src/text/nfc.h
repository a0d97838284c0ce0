// SPDX-License-Identifier: Apache-2.0
// Unicode normalization form C; the only user of utf8proc. Pure function; any thread. Work is linear in the
// text: a run of more than kMaxCombiningRun combining marks (no real writing has one) is normalized in parts.
// Not locale aware.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace isthmus {

inline constexpr size_t kMaxCombiningRun = 128;

// NFC of `text`. Ill-formed UTF-8 is kept byte for byte and separates what it stands between.
// kResourceExhausted when memory runs out.
Result<std::string> normalize_nfc(std::string_view text);

}  // namespace isthmus
