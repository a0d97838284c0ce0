// SPDX-License-Identifier: Apache-2.0
// CaptureMaker: the right capture for one call, or a refusal that names the field in which decoder and
// prefill model do not fit. Keeps the decoders' projection packs loaded. Any thread; the captures it makes
// follow flow's Capture. Trusts nothing that a decoder says about its pack.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/sync.h"
#include "flow/prompt_engine.h"
#include "flow/source.h"
#include "model/config.h"
#include "model/projection_pack.h"

namespace isthmus {

// Where project mode takes rows from when the decoder's projection is the prefill model's own.
enum class SameProjection {
  kTakeEngineRows,  // the engine has just computed these very bits
  kProjectAgain,    // through the pack all the same (about 6 % of the prefill's time)
};

class CaptureMaker {
 public:
  // own_projection: projection_digest() of the prefill model.
  CaptureMaker(ModelConfig prefill, const Digest& own_projection, SameProjection same)
      : prefill_(std::move(prefill)), own_projection_(own_projection), same_(same) {}

  // Rows [resume_from, prompt tokens - 1) go to `sink`, which outlives the capture. Errors: kMismatch
  // (naming field and both values), kUnsupported (layout), kInvalidArgument (resume_from, context), those of
  // load_projection_pack.
  Result<std::unique_ptr<Capture>> make(const PrefillCall& call, const DecoderInfo& decoder,
                                        OutgoingTransfer& sink);

 private:
  using PackPtr = std::shared_ptr<const ProjectionPack>;
  Result<PackPtr> pack_of(const DecoderInfo& decoder);
  Status check(const PrefillCall& call, const DecoderInfo& decoder, const ProjectionPack& pack) const;

  const ModelConfig prefill_;
  const Digest own_projection_;
  const SameProjection same_;
  Mutex mutex_;
  std::map<Digest, PackPtr> packs_ GUARDED_BY(mutex_);  // by decoder identity
};

}  // namespace isthmus
