// SPDX-License-Identifier: Apache-2.0
// A bridge without a wire: one prefill model reads a prompt, the captures that `isthmus prefill` would make
// run along, and what they ship goes straight into the decoders' sequences. One thread. Measures nothing.
#pragma once

#include <span>

#include "base/status.h"
#include "base/token.h"
#include "capture/capture_maker.h"
#include "flow/prompt_engine.h"
#include "flow/source.h"
#include "model/model.h"

namespace isthmus {

// What a prefill engine would learn of this decoder.
Result<DecoderInfo> decoder_info(const Model& decoder, const std::string& name);

struct BridgeTarget {
  const DecoderInfo* decoder = nullptr;
  SourceKind mode = SourceKind::kProject;
  Sequence* rows = nullptr;  // of the decoder's; empty
};

// Reads ids[0, T - 1) in prompt arithmetic into `own` and fills the targets with the rows of these tokens.
// Errors: those of the model and of CaptureMaker::make.
Status bridge_prompt(Model& prefill, CaptureMaker& maker, std::span<const TokenId> ids, Sequence& own,
                     std::span<const BridgeTarget> targets);

}  // namespace isthmus
