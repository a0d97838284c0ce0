// SPDX-License-Identifier: Apache-2.0
// A reply that is one JSON object: stream = false, or the verdict alone. One object per request, used from
// the request's own thread. Sends once, in finish() or fail().
#pragma once

#include "flow/request.h"
#include "front/generated_text.h"
#include "front/reply_context.h"

namespace isthmus {

class WholeReply final : public ReplySink {
 public:
  explicit WholeReply(ReplyContext context);

  void begin_pending(const Verdict& so_far) override { verdict_ = so_far; }
  void progress(int64_t, int64_t) override {}
  void begin(const Verdict& final_verdict) override { verdict_ = final_verdict; }
  bool token(const TokenEvent& event) override;
  void finish(const GenerateStats& stats) override;
  void fail(const Status& why) override;

 private:
  void take(TextPiece piece);

  const ReplyContext c_;
  GeneratedText text_;
  TextPiece all_;
  Verdict verdict_;
};

}  // namespace isthmus
