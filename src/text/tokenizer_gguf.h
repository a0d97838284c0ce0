// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF model file, from its tokenizer.ggml.* metadata. Pure function; any thread.
// Supported: model "gpt2" (byte-level BPE) with pre-tokenizer gpt-2, smollm, qwen2, deepseek-r1-qwen,
// llama-bpe, llama3 or llama-v3. SentencePiece and other models are refused. Control and unknown tokens are
// special, user-defined ones are added tokens, unused ones cannot occur in text.
#pragma once

#include "base/status.h"
#include "tensor/gguf.h"
#include "text/tokenizer_spec.h"

namespace isthmus {

// kUnsupported: a model, pre-tokenizer or setting we do not have; kNotFound: a key is missing; kCorrupt: keys
// contradict each other. The result is not yet checked in itself: Tokenizer::create does that.
Result<TokenizerSpec> tokenizer_spec_from_gguf(const GgufFile& file);

}  // namespace isthmus
