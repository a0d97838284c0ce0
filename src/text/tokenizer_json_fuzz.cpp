// SPDX-License-Identifier: Apache-2.0
// Any bytes as tokenizer.json (up to a NUL byte; what follows it is tokenizer_config.json): an error or a
// tokenizer that works.
#include <cstdint>

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isthmus;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t cut = all.find('\0');
  const std::string_view config = cut == std::string_view::npos ? std::string_view() : all.substr(cut + 1);
  Result<TokenizerSpec> spec = tokenizer_spec_from_json(all.substr(0, cut), config);
  if (!spec.ok()) return 0;
  const Result<Tokenizer> tokenizer = Tokenizer::create(spec.take());
  if (!tokenizer.ok()) return 0;
  const Result<std::vector<TokenId>> ids = tokenizer->encode_rendered(all);
  if (!ids.ok()) return 0;
  for (const TokenId id : *ids) ISTHMUS_CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer->vocab_size());
  (void)tokenizer->decode(*ids, true);
  return 0;
}
