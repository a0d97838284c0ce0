// SPDX-License-Identifier: Apache-2.0
#include "front/reply_whole.h"

#include <iterator>

#include "front/reply_error.h"
#include "front/reply_json.h"

namespace isthmus {

WholeReply::WholeReply(ReplyContext context)
    : c_(std::move(context)),
      text_(c_.tokenizer, c_.stop, c_.sampling.top_logprobs >= 0),
      verdict_(c_.unrouted) {}

void WholeReply::take(TextPiece piece) {
  all_.text += piece.text;
  std::move(piece.tokens.begin(), piece.tokens.end(), std::back_inserter(all_.tokens));
}

bool WholeReply::token(const TokenEvent& event) {
  if (c_.cancel.stop_requested()) return false;
  take(text_.feed(event));
  return !text_.stopped();
}

void WholeReply::finish(const GenerateStats& stats) {
  const HttpHeaders headers = with_verdict(c_.headers, verdict_);
  if (c_.bridge_only) {
    Json body;
    body["object"] = "pd.bridge";
    body["bridge"] = verdict_.to_json();
    return send_json(c_.responder, 200, body, headers);
  }
  if (stats.finish == FinishReason::kCancelled && !text_.stopped()) {
    return fail(Status(Code::kCancelled, "the request was cancelled"));
  }
  take(text_.flush());
  const std::string_view reason = finish_reason(stats, text_.stopped());
  send_json(c_.responder, 200, whole_reply(c_, all_, reason, usage_json(c_, stats, text_.tokens())), headers);
}

void WholeReply::fail(const Status& why) {
  send_api_error(c_.responder, {why, {}, {}, 0}, with_verdict(c_.headers, verdict_));
}

}  // namespace isthmus
