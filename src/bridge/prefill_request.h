// SPDX-License-Identifier: Apache-2.0
// One call on the prefill box: read a prompt and ship the decoder's cache while reading. Runs on the call's
// own thread.
#pragma once

#include <functional>
#include <memory>

#include "flow/prompt_engine.h"

namespace isthmus {

// Makes the capture for one call (capture/); the sink outlives it.
using CaptureFactory = std::function<Result<std::unique_ptr<Capture>>(
    const PrefillCall& call, const DecoderInfo& decoder, OutgoingTransfer& sink)>;

struct PrefillStages {
  PromptEngine& engine;
  DecoderDirectory& decoders;
  TransferSender& sender;
  CaptureFactory make_capture;
};

Result<PrefillReport> prefill_request(const PrefillCall& call, PrefillStages& s, std::stop_token cancel);

class PrefillRequestHandler final : public PrefillHandler {
 public:
  explicit PrefillRequestHandler(PrefillStages stages) : stages_(std::move(stages)) {}
  Result<PrefillReport> prefill(const PrefillCall& call, std::stop_token cancel) override {
    return prefill_request(call, stages_, cancel);
  }

 private:
  PrefillStages stages_;
};

}  // namespace isthmus
