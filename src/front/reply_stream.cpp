// SPDX-License-Identifier: Apache-2.0
#include "front/reply_stream.h"

#include <algorithm>

#include "base/log.h"
#include "front/reply_error.h"
#include "front/reply_json.h"

namespace isthmus {
namespace {

std::string frame(const Json& j) {
  return "data: " + dump_json(j) + "\n\n";
}

}  // namespace

StreamReply::StreamReply(ReplyContext context, SseTimes times)
    : c_(std::move(context)),
      text_(c_.tokenizer, c_.stop, c_.sampling.top_logprobs >= 0),
      verdict_(c_.unrouted),
      stream_(c_.responder, times) {}

std::string StreamReply::opening() const {
  return c_.kind == RequestKind::kChat ? frame(role_chunk(c_)) : std::string();
}

void StreamReply::note(const Status& sent) {
  if (!sent.ok()) gone_ = true;
}

void StreamReply::begin_pending(const Verdict& so_far) {
  verdict_ = so_far;
  pending_ = true;
  note(stream_.open(with_verdict(c_.headers, so_far), opening()));
}

void StreamReply::progress(int64_t done_tokens, int64_t total_tokens) {
  if (total_tokens <= 0 || gone_) return;
  const int64_t percent = std::clamp<int64_t>(100 * done_tokens / total_tokens, 0, 100);
  note(stream_.write(": prefill " + std::to_string(percent) + " %\n\n"));
}

void StreamReply::begin(const Verdict& final_verdict) {
  verdict_ = final_verdict;
  if (!pending_) stream_.arm(with_verdict(c_.headers, final_verdict), opening());
}

bool StreamReply::token(const TokenEvent& event) {
  if (gone_ || c_.cancel.stop_requested()) return false;
  const TextPiece piece = text_.feed(event);
  if (!piece.text.empty() || !piece.tokens.empty()) note(stream_.write(frame(text_chunk(c_, piece))));
  return !gone_ && !text_.stopped();
}

std::string StreamReply::closing(const GenerateStats& stats) {
  std::string out;
  const TextPiece rest = text_.flush();
  if (!rest.text.empty() || !rest.tokens.empty()) out += frame(text_chunk(c_, rest));
  out += frame(finish_chunk(c_, finish_reason(stats, text_.stopped())));
  if (c_.include_usage) {
    Json usage = usage_json(c_, stats, text_.tokens());
    if (pending_) usage["bridge"] = verdict_.to_json();
    out += frame(usage_chunk(c_, std::move(usage)));
  }
  if (pending_) out += ": x-pd-bridge " + verdict_.header() + "\n\n";
  return out + "data: [DONE]\n\n";
}

void StreamReply::finish(const GenerateStats& stats) {
  if (stats.finish == FinishReason::kCancelled && !text_.stopped()) {
    return fail(Status(Code::kCancelled, "the request was cancelled"));
  }
  if (gone_) return;
  note(stream_.write(closing(stats)));
  if (!gone_) note(stream_.end());
}

void StreamReply::fail(const Status& why) {
  const ApiError error{why, {}, {}, 0};
  if (stream_.abandon()) return send_api_error(c_.responder, error, with_verdict(c_.headers, verdict_));
  if (gone_) return;
  if (why.code() != Code::kCancelled) {
    log_warn("front: stream {} ends with an error: {}", c_.id, why.to_string());
  }
  note(stream_.write(frame(error_json(error))));
  if (!gone_) note(stream_.end());
}

}  // namespace isthmus
