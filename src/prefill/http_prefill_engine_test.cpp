// SPDX-License-Identifier: Apache-2.0
#include "prefill/http_prefill_engine.h"

#include <atomic>
#include <future>
#include <optional>

#include "prefill/prefill_test_util.h"

namespace isthmus {
namespace {

class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override { return MonotonicTime(Millis(1'000'000 + ms.load())); }
  std::chrono::system_clock::time_point wall_now() const override { return {}; }
  std::atomic<int64_t> ms = 0;
};

std::unique_ptr<HttpPrefillEngine> engine_for(const Peer& peer, const Clock& clock = SystemClock::instance(),
                                              int64_t health_ms = 10'000) {
  HttpPrefillEngineOptions options;
  options.peer = peer;
  options.health_ms = health_ms;
  auto engine = HttpPrefillEngine::create(std::move(options), clock);
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.take();
}

// The result of one call.
Result<PrefillReport> run(HttpPrefillEngine& engine, const PrefillCall& call) {
  std::promise<Result<PrefillReport>> done;
  const auto run = engine.start(call, [&done](Result<PrefillReport> r) { done.set_value(std::move(r)); });
  EXPECT_TRUE(run.ok());
  return done.get_future().get();
}

TEST(HttpPrefillEngine, CarriesTheCallAndTheReport) {
  std::optional<PrefillCall> got;
  const TestServer s(
      [&got](const PrefillCall& call, const std::stop_token&) {
        got = call;
        return Result<PrefillReport>(PrefillReport{3, 64, 1, 0.5});
      },
      "secret");
  const auto engine = engine_for(s.peer("secret"));
  const auto report = run(*engine, test_call());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->computed_tokens, 3);
  EXPECT_EQ(report->reused_tokens, 64);
  EXPECT_EQ(report->shipped_tokens, 1);
  EXPECT_EQ(report->engine_s, 0.5);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->transfer_id, test_call().transfer_id);
  EXPECT_EQ(got->ids, test_call().ids);
  EXPECT_EQ(got->resume_from, 2);
  EXPECT_EQ(got->identity, test_call().identity);
  EXPECT_EQ(got->mode, SourceKind::kProject);
}

TEST(HttpPrefillEngine, CarriesErrors) {
  const TestServer s(
      [](const PrefillCall&, const std::stop_token&) {
        return Result<PrefillReport>(Code::kMismatch, "rope.theta: 1 here, 2 there");
      },
      "secret");
  const auto engine = engine_for(s.peer("secret"));
  const Status mismatch = run(*engine, test_call()).status();
  EXPECT_EQ(mismatch.code(), Code::kMismatch);
  EXPECT_NE(mismatch.message().find("rope.theta: 1 here, 2 there"), std::string::npos);
  PrefillCall bad = test_call();
  bad.resume_from = 4;
  EXPECT_EQ(run(*engine, bad).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(run(*engine_for(s.peer("wrong")), test_call()).status().code(), Code::kUnauthenticated);
}

TEST(HttpPrefillEngine, AServerThatIsGoneIsUnavailable) {
  auto s = std::make_unique<TestServer>(
      [](const PrefillCall&, const std::stop_token&) { return Result<PrefillReport>(PrefillReport{}); });
  const auto engine = engine_for(s->peer());
  s.reset();
  EXPECT_EQ(run(*engine, test_call()).status().code(), Code::kUnavailable);
  const PrefillHealth health = engine->health();
  EXPECT_FALSE(health.reachable);
  EXPECT_NE(health.why.find("unavailable: http://127.0.0.1:"), std::string::npos) << health.why;
}

TEST(HttpPrefillEngine, DroppingTheRunCancelsThereAndSilencesOnDone) {
  Event entered, cancelled;
  const TestServer s([&](const PrefillCall&, const std::stop_token& cancel) {
    entered.set();
    if (wait_for_cancel(cancel)) cancelled.set();
    return Result<PrefillReport>(Code::kCancelled, "cancelled");
  });
  std::atomic<bool> told = false;
  auto engine = engine_for(s.peer());
  auto run = engine->start(test_call(), [&told](const Result<PrefillReport>&) { told = true; });
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(entered.wait());
  run->reset();
  EXPECT_TRUE(cancelled.wait());
  engine.reset();  // joins the call's thread
  EXPECT_FALSE(told);
}

TEST(HttpPrefillEngine, DestructionEndsCallsThatRun) {
  Event entered, cancelled;
  const TestServer s([&](const PrefillCall&, const std::stop_token& cancel) {
    entered.set();
    if (wait_for_cancel(cancel)) cancelled.set();
    return Result<PrefillReport>(Code::kCancelled, "cancelled");
  });
  auto engine = engine_for(s.peer());
  const auto run = engine->start(test_call(), [](const Result<PrefillReport>&) {});
  ASSERT_TRUE(entered.wait());
  engine.reset();
  EXPECT_TRUE(cancelled.wait());
}

// A server of /v1/identity that counts, and can be held up.
struct IdentityServer {
  IdentityServer()
      : http(start_server({}, [this](const HttpRequest&, HttpResponder& reply) {
          if (++asked == hold_at) {
            held.set();
            EXPECT_TRUE(release.wait());
          }
          (void)reply.send(200, "application/json", dump_json(body));
        })) {
    body = {
        {"producer", Identity::of({{"a", 1}}).digest.hex()}, {"fields", {{"a", 1}}}, {"tokens_per_s", 500}};
  }
  Peer peer() const { return {*parse_url("http://127.0.0.1:" + std::to_string(http->port())), ""}; }

  Json body;
  std::atomic<int> asked = 0, hold_at = -1;
  Event held, release;
  std::unique_ptr<HttpServer> http;  // last: its handler uses the rest
};

TEST(HttpPrefillEngine, HealthIsCachedForASecond) {
  IdentityServer s;
  ManualClock clock;
  const auto engine = engine_for(s.peer(), clock);
  for (const int64_t ms : {0, 500, 999}) {
    clock.ms = ms;
    const PrefillHealth health = engine->health();
    EXPECT_TRUE(health.reachable) << health.why;
    EXPECT_EQ(health.producer, Identity::of({{"a", 1}}).digest);
    EXPECT_EQ(health.tokens_per_s, 500);
    EXPECT_EQ(s.asked, 1);
  }
  clock.ms = 1'000;
  EXPECT_TRUE(engine->health().reachable);
  EXPECT_EQ(s.asked, 2);
}

TEST(HttpPrefillEngine, OthersGetTheLastHealthWhileOneAsks) {
  IdentityServer s;
  ManualClock clock;
  const auto engine = engine_for(s.peer(), clock);
  ASSERT_TRUE(engine->health().reachable);
  clock.ms = 5'000;
  s.hold_at = 2;
  auto asking = std::async(std::launch::async, [&] { return engine->health().reachable; });
  ASSERT_TRUE(s.held.wait());
  EXPECT_TRUE(engine->health().reachable);  // would hang if it waited
  s.release.set();
  EXPECT_TRUE(asking.get());
  EXPECT_EQ(s.asked, 2);
}

TEST(HttpPrefillEngine, AStoppedProcessIsUnreachable) {
  const auto listener = TcpListener::bind().take();  // the kernel connects, nobody answers
  const Peer peer{*parse_url("http://127.0.0.1:" + std::to_string(listener->port())), ""};
  const auto engine = engine_for(peer, SystemClock::instance(), 50);
  const PrefillHealth health = engine->health();
  EXPECT_FALSE(health.reachable);
  EXPECT_NE(health.why.find("deadline_exceeded"), std::string::npos) << health.why;
}

TEST(HttpPrefillEngine, BelievesNoStrangeIdentity) {
  const Json good = {
      {"producer", Identity::of({{"a", 1}}).digest.hex()}, {"fields", {{"a", 1}}}, {"tokens_per_s", 5}};
  Json other_digest = good, no_fields = good, no_rate = good;
  other_digest["producer"] = Digest().hex();
  no_fields.erase("fields");
  no_rate.erase("tokens_per_s");
  for (const Json& body : {other_digest, no_fields, no_rate, Json::array(), Json("text")}) {
    IdentityServer s;
    s.body = body;
    const PrefillHealth health = engine_for(s.peer())->health();
    EXPECT_FALSE(health.reachable) << dump_json(body);
    EXPECT_FALSE(health.why.empty());
  }
}

}  // namespace
}  // namespace isthmus
