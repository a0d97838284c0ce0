// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a Hugging Face model directory: tokenizer.json and, for what that file does not say,
// tokenizer_config.json. Pure function; any thread. Supported: BPE without dropout, prefixes and
// byte_fallback; normalizer none or NFC; pre-tokenizer ByteLevel, Digits, Split with a regex we know
// (pre_tokenizer.h) and sequences of them, ByteLevel last; post-processor ByteLevel or a template that puts
// one BOS first; decoder ByteLevel. Everything else is refused with a sentence: a field we do not know may
// change ids.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer_spec.h"

namespace isthmus {

// `config_json` (tokenizer_config.json, may be empty) gives bos_token, eos_token and add_bos_token; its
// add_bos_token, where present, wins over the post-processor. End tokens of generation_config.json are the
// caller's to add to end_ids. kInvalidArgument: not JSON or a field of the wrong type; kCorrupt: ids
// contradict each other; kUnsupported: see above.
Result<TokenizerSpec> tokenizer_spec_from_json(std::string_view tokenizer_json,
                                               std::string_view config_json = {});

}  // namespace isthmus
