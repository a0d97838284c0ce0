// SPDX-License-Identifier: Apache-2.0
// A reply as server-sent events: role (chat), text deltas, the finish chunk, the usage chunk if it was asked
// for, [DONE]. A stream that began before its verdict was final carries it as a comment right before [DONE].
// One object per request, used from the request's own thread.
#pragma once

#include "flow/request.h"
#include "front/generated_text.h"
#include "front/reply_context.h"
#include "front/sse_stream.h"

namespace isthmus {

class StreamReply final : public ReplySink {
 public:
  StreamReply(ReplyContext context, SseTimes times);

  void begin_pending(const Verdict& so_far) override;
  void progress(int64_t done_tokens, int64_t total_tokens) override;
  void begin(const Verdict& final_verdict) override;
  bool token(const TokenEvent& event) override;
  void finish(const GenerateStats& stats) override;
  void fail(const Status& why) override;

 private:
  std::string opening() const;  // frames that come first
  std::string closing(const GenerateStats& stats);
  void note(const Status& sent);  // remembers that the client is gone

  const ReplyContext c_;
  GeneratedText text_;
  Verdict verdict_;
  bool pending_ = false;  // the header went out before the verdict was final
  bool gone_ = false;
  SseStream stream_;
};

}  // namespace isthmus
