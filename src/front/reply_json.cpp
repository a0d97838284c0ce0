// SPDX-License-Identifier: Apache-2.0
#include "front/reply_json.h"

#include <cmath>

#include "base/hash.h"
#include "text/utf8.h"

namespace isthmus {
namespace {

bool is_chat(const ReplyContext& c) {
  return c.kind == RequestKind::kChat;
}

// JSON has no infinity; clients know this value for "next to impossible".
double finite_logprob(float v) {
  return std::isfinite(v) ? static_cast<double>(v) : -9999.0;
}

// A token that is only a part of a character is shown by its bytes.
std::string token_label(std::string_view bytes) {
  if (utf8_valid_prefix(bytes) == bytes.size()) return std::string(bytes);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
  }
  return out;
}

Json scored(const ReplyContext& c, TokenId id, float logprob) {
  const std::string_view bytes = c.tokenizer.token_bytes(id);
  Json values = Json::array();
  for (const char b : bytes) values.push_back(static_cast<int>(static_cast<unsigned char>(b)));
  Json j;
  j["token"] = token_label(bytes);
  j["logprob"] = finite_logprob(logprob);
  j["bytes"] = std::move(values);
  return j;
}

Json chat_logprobs(const ReplyContext& c, const std::vector<ScoredToken>& tokens) {
  Json content = Json::array();
  for (const ScoredToken& t : tokens) {
    Json entry = scored(c, t.event.id, t.event.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& [id, logprob] : t.event.top) entry["top_logprobs"].push_back(scored(c, id, logprob));
    content.push_back(std::move(entry));
  }
  Json j;
  j["content"] = std::move(content);
  j["refusal"] = nullptr;
  return j;
}

Json completion_logprobs(const ReplyContext& c, const std::vector<ScoredToken>& tokens) {
  Json j;
  for (const char* key : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) j[key] = Json::array();
  for (const ScoredToken& t : tokens) {
    j["tokens"].push_back(token_label(c.tokenizer.token_bytes(t.event.id)));
    j["token_logprobs"].push_back(finite_logprob(t.event.logprob));
    Json top = Json::object();
    for (const auto& [id, logprob] : t.event.top) {
      top[token_label(c.tokenizer.token_bytes(id))] = finite_logprob(logprob);
    }
    j["top_logprobs"].push_back(c.sampling.top_logprobs > 0 ? std::move(top) : Json());
    j["text_offset"].push_back(t.text_offset);
  }
  return j;
}

Json logprobs_of(const ReplyContext& c, const std::vector<ScoredToken>& tokens) {
  if (c.sampling.top_logprobs < 0) return Json();
  return is_chat(c) ? chat_logprobs(c, tokens) : completion_logprobs(c, tokens);
}

// `content` is "delta" or "message" with its object in chats, "text" with a string in completions.
Json with_choice(Json head, const char* content_key, Json content, Json logprobs, Json finish) {
  Json choice;
  choice["index"] = 0;
  choice[content_key] = std::move(content);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish);
  head["choices"] = Json::array();
  head["choices"].push_back(std::move(choice));
  return head;
}

Json stream_chunk(const ReplyContext& c, Json content, Json logprobs, Json finish) {
  Json chunk = with_choice(reply_head(c, true), is_chat(c) ? "delta" : "text", std::move(content),
                           std::move(logprobs), std::move(finish));
  if (c.include_usage) chunk["usage"] = nullptr;
  return chunk;
}

}  // namespace

std::string_view finish_reason(const GenerateStats& stats, bool stopped) {
  return stats.finish == FinishReason::kLength && !stopped ? "length" : "stop";
}

Json reply_head(const ReplyContext& c, bool chunk) {
  Json j;
  j["id"] = c.id;
  j["object"] = !is_chat(c) ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  j["created"] = c.created;
  j["model"] = c.model;
  return j;
}

Json whole_reply(const ReplyContext& c, const TextPiece& all, std::string_view finish, Json usage) {
  Json content = all.text;
  if (is_chat(c)) {
    content = Json::object();
    content["role"] = "assistant";
    content["content"] = all.text;
  }
  Json j = with_choice(reply_head(c, false), is_chat(c) ? "message" : "text", std::move(content),
                       logprobs_of(c, all.tokens), finish);
  j["usage"] = std::move(usage);
  return j;
}

Json role_chunk(const ReplyContext& c) {
  Json delta;
  delta["role"] = "assistant";
  delta["content"] = "";
  return stream_chunk(c, std::move(delta), Json(), Json());
}

Json text_chunk(const ReplyContext& c, const TextPiece& piece) {
  Json content = piece.text;
  if (is_chat(c)) {
    content = Json::object();
    content["content"] = piece.text;
  }
  return stream_chunk(c, std::move(content), logprobs_of(c, piece.tokens), Json());
}

Json finish_chunk(const ReplyContext& c, std::string_view finish) {
  return stream_chunk(c, is_chat(c) ? Json::object() : Json(""), Json(), finish);
}

Json usage_chunk(const ReplyContext& c, Json usage) {
  Json chunk = reply_head(c, true);
  chunk["choices"] = Json::array();
  chunk["usage"] = std::move(usage);
  return chunk;
}

Json usage_json(const ReplyContext& c, const GenerateStats& stats, int64_t completion_tokens) {
  Json j;
  j["prompt_tokens"] = c.prompt_tokens;
  j["completion_tokens"] = completion_tokens;
  j["total_tokens"] = c.prompt_tokens + completion_tokens;
  j["prompt_tokens_details"]["cached_tokens"] = stats.cached_tokens;
  if (!c.debug) return j;
  Json& d = j["isthmus"];
  d["first_logits_xxh3"] = hex64(stats.first_logits_xxh3);
  d["computed_tokens"] = stats.computed_tokens;
  d["cached_tokens"] = stats.cached_tokens;
  d["queue_s"] = stats.queue_s;
  d["prompt_s"] = stats.prompt_s;
  d["decode_s"] = stats.decode_s;
  d["seed"] = static_cast<int64_t>(c.sampling.seed);  // in the range that requests may name
  return j;
}

}  // namespace isthmus
