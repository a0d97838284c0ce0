// SPDX-License-Identifier: Apache-2.0
// Streamed replies over a real connection.
#include <condition_variable>
#include <mutex>

#include "front/front_test_util.h"
#include "net/sse.h"

namespace isthmus {
namespace {

const std::string kHead = R"(data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"tiny",)";

std::string chunk(const std::string& delta, const std::string& finish, const std::string& tail = {}) {
  return kHead + R"("choices":[{"index":0,"delta":)" + delta + R"(,"logprobs":null,"finish_reason":)" +
         finish + "}]" + tail + "}\n\n";
}

const std::string kRole = R"({"role":"assistant","content":""})";
const std::string kUsage = R"("usage":{"prompt_tokens":19,"completion_tokens":2,"total_tokens":21,)"
                           R"("prompt_tokens_details":{"cached_tokens":4})";

FrontOptions with_times(Millis keep_alive, Millis open_after) {
  FrontOptions options;
  options.sse = {keep_alive, open_after};
  return options;
}

// Text of all deltas of a stream.
std::string text_of(const HttpResponse& reply) {
  std::string text;
  SseParser parser;
  EXPECT_TRUE(parser
                  .feed(reply.body,
                        [&](SseItem&& item) {
                          if (item.kind != SseItem::Kind::kEvent || item.data == "[DONE]") return;
                          const Json choice = parse_json(item.data, "event")->at("choices").at(0);
                          if (choice.contains("text"))
                            text += choice["text"].get<std::string>();
                          else
                            text += choice["delta"].value("content", "");
                        })
                  .ok());
  return text;
}

TEST(FrontStream, OrderIsRoleTextFinishDone) {
  TestFront front(says({"Hello", " world"}));
  const HttpResponse reply = front.chat(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("Content-Type"), "text/event-stream");
  EXPECT_EQ(reply.headers.get("Cache-Control"), "no-cache");
  EXPECT_EQ(reply.headers.get("X-PD-Bridge"), short_verdict().header());
  EXPECT_EQ(normalized(reply.body), chunk(kRole, "null") + chunk(R"({"content":"Hello"})", "null") +
                                        chunk(R"({"content":" world"})", "null") + chunk("{}", R"("stop")") +
                                        "data: [DONE]\n\n");
}

TEST(FrontStream, UsageHasItsOwnChunkWhenAskedFor) {
  TestFront front(says({"Hello", " world"}, FinishReason::kLength));
  const HttpResponse reply = front.chat(R"(,"stream":true,"stream_options":{"include_usage":true})");
  const std::string none = R"(,"usage":null)";
  EXPECT_EQ(normalized(reply.body),
            chunk(kRole, "null", none) + chunk(R"({"content":"Hello"})", "null", none) +
                chunk(R"({"content":" world"})", "null", none) + chunk("{}", R"("length")", none) + kHead +
                R"("choices":[],)" + kUsage + "}}\n\ndata: [DONE]\n\n");
  const HttpResponse off = front.chat(R"(,"stream":true,"stream_options":{"include_usage":false})");
  EXPECT_EQ(off.body.find("usage"), std::string::npos);
}

TEST(FrontStream, CompletionChunks) {
  TestFront front(says({"Hello"}));
  const std::string head =
      R"(data: {"id":"ID","object":"text_completion","created":0,"model":"tiny","choices":[)";
  EXPECT_EQ(normalized(front.completion(R"(,"stream":true)").body),
            head + R"({"index":0,"text":"Hello","logprobs":null,"finish_reason":null}]})" + "\n\n" + head +
                R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]})" + "\n\ndata: [DONE]\n\n");
}

TEST(FrontStream, StopStringOverSeveralTokens) {
  TestFront stopped(says({"Hello", "EN", "D_", "OF", "X"}));
  TestFront false_start(says({"Hello", "EN", "D_", "X"}));
  for (const char* stream :
       {R"(,"stop":"END_OF","stream":true)", R"(,"stop":["zz","END_OF"],"stream":true)"}) {
    const HttpResponse chat = stopped.chat(stream);
    EXPECT_EQ(text_of(chat), "Hello");
    EXPECT_NE(chat.body.find(R"("finish_reason":"stop")"), std::string::npos);
    EXPECT_EQ(text_of(stopped.completion(stream)), "Hello");
    EXPECT_EQ(text_of(false_start.chat(stream)), "HelloEND_X");
  }
  const Json whole = json_of(stopped.chat(R"(,"stop":"END_OF","logprobs":true)"));
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(whole["choices"][0]["logprobs"]["content"].size(), 1u);  // none of the stop string's tokens
  EXPECT_EQ(whole["usage"]["completion_tokens"], 4);
  EXPECT_EQ(json_of(false_start.chat(R"(,"stop":"END_OF")"))["choices"][0]["message"]["content"],
            "HelloEND_X");
}

TEST(FrontStream, EmojiSplitOverTokens) {
  const std::string emoji = "\xF0\x9F\x98\x80";
  for (const std::vector<std::string>& split : std::vector<std::vector<std::string>>{
           {"\xF0", "\x9F\x98\x80"}, {"\xF0\x9F", "\x98\x80"}, {"\xF0\x9F\x98", "\x80"}}) {
    TestFront front(says(split));
    EXPECT_EQ(text_of(front.chat(R"(,"stream":true)")), emoji);
    EXPECT_EQ(json_of(front.chat())["choices"][0]["message"]["content"], emoji);
  }
  TestFront cut(says({"X", "\xF0\x9F"}, FinishReason::kLength));
  EXPECT_EQ(text_of(cut.chat(R"(,"stream":true)")), "X\xEF\xBF\xBD");
}

TEST(FrontStream, LogprobsTravelWithTheirText) {
  TestFront front(says({"\xF0\x9F", "\x98\x80", "X"}));
  const HttpResponse reply = front.chat(R"(,"stream":true,"logprobs":true)");
  std::vector<size_t> counts;
  SseParser parser;
  ASSERT_TRUE(parser
                  .feed(reply.body,
                        [&](SseItem&& item) {
                          if (item.data == "[DONE]") return;
                          const Json j = parse_json(item.data, "event")->at("choices").at(0);
                          if (j["logprobs"].is_object()) counts.push_back(j["logprobs"]["content"].size());
                        })
                  .ok());
  EXPECT_EQ(counts, (std::vector<size_t>{2, 1}));
}

TEST(FrontStream, PendingVerdictComesBeforeDone) {
  Verdict waiting = short_verdict();
  waiting.pending = true;
  Verdict done;
  done.skipped = false;
  done.verdict = "complete";
  done.tokens = 19;
  TestFront front([&](const Request& rq, ReplySink& reply) {
    EXPECT_TRUE(rq.stream);
    reply.begin_pending(waiting);
    reply.progress(8, 19);
    reply.progress(19, 19);
    reply.begin(done);
    play_tokens({"Hello", " world"}, reply);
  });
  const HttpResponse plain = front.chat(R"(,"stream":true)");
  EXPECT_EQ(plain.headers.get("X-PD-Bridge"), waiting.header());
  const std::string progress = ": prefill 42 %\n\n: prefill 100 %\n\n";
  EXPECT_EQ(normalized(plain.body), chunk(kRole, "null") + progress +
                                        chunk(R"({"content":"Hello"})", "null") +
                                        chunk(R"({"content":" world"})", "null") + chunk("{}", R"("stop")") +
                                        ": x-pd-bridge " + done.header() + "\n\ndata: [DONE]\n\n");
  const HttpResponse asked = front.chat(R"(,"stream":true,"stream_options":{"include_usage":true})");
  const std::string end = kUsage + R"(,"bridge":)" + done.header() + "}}\n\n: x-pd-bridge " + done.header() +
                          "\n\ndata: [DONE]\n\n";
  EXPECT_TRUE(normalized(asked.body).ends_with(end)) << asked.body;
}

constexpr std::string_view kStreamBody = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

std::string stream_request() {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(kStreamBody.size()) + "\r\n\r\n" + std::string(kStreamBody);
}

TEST(FrontStream, HeartbeatWhileTheHandlerBlocks) {
  Event release;
  TestFront front(
      [&](const Request&, ReplySink& reply) {
        reply.begin(short_verdict());
        EXPECT_TRUE(release.wait());
        play_tokens({"Hello"}, reply);
      },
      with_times(Millis(20), Millis(1)));
  RawClient client(front.front().port());
  ASSERT_TRUE(client.send(stream_request()).ok());
  const std::string head = client.read_until("\r\n\r\n");  // before the first token
  EXPECT_NE(head.find("X-PD-Bridge: "), std::string::npos);
  EXPECT_NE(client.read_until(": keep-alive\n\n").find(R"("role":"assistant")"), std::string::npos);
  EXPECT_NE(client.read_until(": keep-alive\n\n"), "");
  release.set();
  const std::string rest = client.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find(R"("content":"Hello")"), std::string::npos);
  EXPECT_NE(rest.find("data: [DONE]\n\n"), std::string::npos);
}

TEST(FrontStream, ErrorAfterTheStreamOpenedIsOneEvent) {
  Event opened;
  TestFront front(
      [&](const Request&, ReplySink& reply) {
        reply.begin(short_verdict());
        EXPECT_TRUE(reply.token({piece("Hello"), 0, {}}));
        EXPECT_TRUE(opened.wait());
        reply.fail(Status(Code::kUnavailable, "engine: gone"));
      },
      with_times(Millis(60'000), Millis(60'000)));
  RawClient client(front.front().port());
  ASSERT_TRUE(client.send(stream_request()).ok());
  EXPECT_NE(client.read_until("Hello").find("200 OK"), std::string::npos);
  opened.set();
  const std::string rest = client.read_until("0\r\n\r\n");
  EXPECT_NE(rest.find(R"(data: {"error":{"message":"engine: gone","type":"unavailable_error",)"
                      R"("param":null,"code":"unavailable"}})"),
            std::string::npos)
      << rest;
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
}

bool wait_for_stop(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, token, std::chrono::seconds(10), [&] { return token.stop_requested(); });
}

TEST(FrontStream, ClientGoneCancels) {
  Event seen;
  TestFront front([&](const Request& rq, ReplySink& reply) {
    reply.begin(short_verdict());
    EXPECT_TRUE(reply.token({piece("Hello"), 0, {}}));
    EXPECT_TRUE(wait_for_stop(rq.cancel));
    EXPECT_FALSE(reply.token({piece(" world"), 0, {}}));
    GenerateStats stats;
    stats.finish = FinishReason::kCancelled;
    reply.finish(stats);
    seen.set();
  });
  {
    RawClient client(front.front().port());
    ASSERT_TRUE(client.send(stream_request()).ok());
    EXPECT_NE(client.read_until("Hello"), "");
  }
  EXPECT_TRUE(seen.wait());
}

TEST(FrontStream, StopEndsRunningStreams) {
  Event inside;
  auto front = std::make_unique<TestFront>(
      [&](const Request& rq, ReplySink& reply) {
        reply.begin(short_verdict());
        inside.set();
        EXPECT_TRUE(wait_for_stop(rq.cancel));
        reply.fail(Status(Code::kCancelled, "stopping"));
      },
      with_times(Millis(60'000), Millis(1)));
  RawClient client(front->front().port());
  ASSERT_TRUE(client.send(stream_request()).ok());
  ASSERT_TRUE(inside.wait());
  front->front().stop();
  front->front().stop();
  EXPECT_EQ(client.read_to_end().find("[DONE]"), std::string::npos);
}

}  // namespace
}  // namespace isthmus
