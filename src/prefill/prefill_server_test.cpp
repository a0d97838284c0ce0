// SPDX-License-Identifier: Apache-2.0
#include "prefill/prefill_server.h"

#include <future>

#include "prefill/prefill_test_util.h"

namespace isthmus {
namespace {

Script reports(const PrefillReport& report) {
  return [report](const PrefillCall&, const std::stop_token&) { return Result<PrefillReport>(report); };
}

HttpResponse request(const HttpCall& call) {
  const HttpClient http = HttpClient::create({}).take();
  auto reply = http.request(call);
  EXPECT_TRUE(reply.ok()) << reply.status().to_string();
  return reply.ok() ? reply.take() : HttpResponse{};
}

HttpCall post(const Peer& peer, std::string body) {
  HttpCall call = peer.call("POST", "/v1/prefill");
  call.body = std::move(body);
  return call;
}

TEST(PrefillServer, AnswersTheReport) {
  const TestServer s(
      reports({.computed_tokens = 3, .reused_tokens = 64, .shipped_tokens = 1, .engine_s = 0.5}));
  const HttpResponse reply = request(post(s.peer(), prefill_call_text(test_call())));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"computed_tokens":3,"reused_tokens":64,"shipped_tokens":1,"engine_s":0.5})");
}

TEST(PrefillServer, RoutesAndRefusals) {
  const TestServer s(reports({}), "secret");
  struct Row {
    const char* method;
    const char* path;
    HttpHeaders headers;
    int status;
    const char* code;  // of the error; empty: none
  };
  const HttpHeaders right = {{"Authorization", "Bearer secret"}};
  const Row rows[] = {
      {"GET", "/health", {}, 200, ""},
      {"GET", "/v1/identity", right, 200, ""},
      {"GET", "/v1/identity", {}, 401, "unauthenticated"},
      {"GET", "/v1/identity", {{"Authorization", "Bearer secre"}}, 401, "unauthenticated"},
      {"GET", "/v1/identity", {{"Authorization", "Basic secret"}}, 401, "unauthenticated"},
      {"POST", "/v1/prefill", {}, 401, "unauthenticated"},
      {"POST", "/v1/prefill", right, 400, "invalid_argument"},  // no body
      {"GET", "/v1/prefill", right, 405, "invalid_argument"},
      {"POST", "/health", {}, 405, "invalid_argument"},
      {"GET", "/v1/prefill/", right, 404, "not_found"},
      {"GET", "/", {}, 404, "not_found"},
      {"GET", "/health", {{"Origin", "http://evil.example"}}, 403, "unauthenticated"},
      {"GET", "/health", {{"Origin", "http://localhost:3000"}}, 200, ""},
  };
  for (const Row& r : rows) {
    HttpCall call = s.peer().call(r.method, r.path);
    call.headers = r.headers;
    const HttpResponse reply = request(call);
    const std::string what = std::string(r.method) + " " + r.path;
    EXPECT_EQ(reply.status, r.status) << what << ": " << reply.body;
    const Json j = *parse_json(reply.body, "reply");
    EXPECT_EQ(j.contains("error") ? j["error"]["code"] : Json(""), r.code) << what;
  }
  RawClient foreign(s.server->port());
  ASSERT_TRUE(foreign.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n").ok());
  EXPECT_EQ(status_of(foreign.read_reply()), 403);
}

TEST(PrefillServer, HandlerErrorsBecomeStatuses) {
  struct Row {
    Code code;
    int status;
  };
  const Row rows[] = {{Code::kInvalidArgument, 400},  {Code::kNotFound, 404},
                      {Code::kMismatch, 409},         {Code::kCancelled, 499},
                      {Code::kUnavailable, 503},      {Code::kResourceExhausted, 503},
                      {Code::kDeadlineExceeded, 504}, {Code::kInternal, 500}};
  for (const Row& r : rows) {
    const TestServer s([&r](const PrefillCall&, const std::stop_token&) {
      return Result<PrefillReport>(r.code, "rope.theta: 1 here, 2 there");
    });
    const HttpResponse reply = request(post(s.peer(), prefill_call_text(test_call())));
    EXPECT_EQ(reply.status, r.status);
    EXPECT_EQ(parse_error(reply.status, reply.body).code(), r.code);
    EXPECT_EQ(parse_error(reply.status, reply.body).message(), "rope.theta: 1 here, 2 there");
  }
}

TEST(PrefillServer, BadBodiesNeverReachTheHandler) {
  bool called = false;
  const TestServer s([&called](const PrefillCall&, const std::stop_token&) {
    called = true;
    return Result<PrefillReport>(PrefillReport{});
  });
  std::string over = prefill_call_text(test_call());
  over.insert(over.size() - 1, ",\"more\":1");
  for (const std::string& body : {std::string(), std::string("{}"), std::string("[1"), over}) {
    EXPECT_EQ(request(post(s.peer(), body)).status, 400) << body;
  }
  EXPECT_EQ(request(post(s.peer(), std::string((16 << 20) + 1, ' '))).status, 413);
  EXPECT_FALSE(called);
}

TEST(PrefillServer, AnswersWhileCallsRunAndLimitsThem) {
  Event entered, leave;
  const TestServer s(
      [&](const PrefillCall&, const std::stop_token&) {
        entered.set();
        EXPECT_TRUE(leave.wait());
        return Result<PrefillReport>(PrefillReport{});
      },
      "", 1);
  const std::string body = prefill_call_text(test_call());
  auto running = std::async(std::launch::async, [&] { return request(post(s.peer(), body)).status; });
  ASSERT_TRUE(entered.wait());
  const Json health = *parse_json(request(s.peer().call("GET", "/health")).body, "health");
  EXPECT_EQ(health["ok"], true);
  EXPECT_EQ(health["running"], 1);
  EXPECT_EQ(health["model"], "tiny");
  const HttpResponse refused = request(post(s.peer(), body));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(parse_error(503, refused.body).code(), Code::kResourceExhausted);
  leave.set();
  EXPECT_EQ(running.get(), 200);
}

TEST(PrefillServer, IdentityIsTheProducers) {
  const TestServer s(reports({}));
  const Json j = *parse_json(request(s.peer().call("GET", "/v1/identity")).body, "identity");
  EXPECT_EQ(j["producer"], Identity::of({{"weights", "w"}}).digest.hex());
  EXPECT_EQ(j["fields"]["weights"], "w");
  EXPECT_EQ(j["tokens_per_s"], 123.5);
  EXPECT_EQ(j["max_tokens"], 1000);
  EXPECT_GE(j["uptime_s"].get<double>(), 0.0);
}

TEST(PrefillServer, AClientThatLeavesCancelsItsCall) {
  Event entered, cancelled;
  const TestServer s([&](const PrefillCall&, const std::stop_token& cancel) {
    entered.set();
    if (wait_for_cancel(cancel)) cancelled.set();
    return Result<PrefillReport>(Code::kCancelled, "cancelled");
  });
  RawClient client(s.server->port());
  const std::string body = prefill_call_text(test_call());
  ASSERT_TRUE(client
                  .send("POST /v1/prefill HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                        std::to_string(body.size()) + "\r\n\r\n" + body)
                  .ok());
  ASSERT_TRUE(entered.wait());
  client.close();
  EXPECT_TRUE(cancelled.wait());
}

TEST(PrefillServer, StopCancelsWhatRuns) {
  Event entered;
  bool cancelled = false;
  TestServer s([&](const PrefillCall&, const std::stop_token& cancel) {
    entered.set();
    cancelled = wait_for_cancel(cancel);
    return Result<PrefillReport>(Code::kCancelled, "cancelled");
  });
  const HttpClient http = HttpClient::create({}).take();
  const HttpCall call = post(s.peer(), prefill_call_text(test_call()));
  auto running = std::async(std::launch::async, [&] { return http.request(call).ok(); });
  ASSERT_TRUE(entered.wait());
  s.server->stop();
  EXPECT_TRUE(cancelled);
  running.wait();
}

TEST(PrefillServer, RefusesToLetCallsTakeEveryHandler) {
  ScriptedHandler handler(reports({}));
  for (const int max_calls : {0, 64}) {
    PrefillServerOptions options;
    options.max_calls = max_calls;
    EXPECT_EQ(PrefillServer::start(std::move(options), handler).status().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace isthmus
