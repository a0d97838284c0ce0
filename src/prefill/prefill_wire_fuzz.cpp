// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "prefill/prefill_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isthmus;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const PrefillLimits limits{.vocab = 50'000, .max_tokens = 4096};
  const Result<PrefillCall> call = parse_prefill_call(text, limits);
  if (call.ok()) {
    const Result<PrefillCall> again = parse_prefill_call(prefill_call_text(*call), limits);
    ISTHMUS_CHECK(again.ok() && again->ids == call->ids && again->identity == call->identity);
  }
  (void)parse_prefill_report(text);
  ISTHMUS_CHECK(!parse_error(500, text).ok());
  return 0;
}
