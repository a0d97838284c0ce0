// SPDX-License-Identifier: Apache-2.0
// Tests only: a prefill server with a scripted handler on a free loopback port, and plain requests to it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "net/http_test_util.h"
#include "prefill/peer_http.h"
#include "prefill/prefill_server.h"

namespace isthmus {

using Script = std::function<Result<PrefillReport>(const PrefillCall&, std::stop_token)>;

class ScriptedHandler final : public PrefillHandler {
 public:
  explicit ScriptedHandler(Script script) : script_(std::move(script)) {}
  Result<PrefillReport> prefill(const PrefillCall& call, std::stop_token cancel) override {
    return script_(call, std::move(cancel));
  }

 private:
  Script script_;
};

// Returns when `cancel` fires; false if it does not within ten seconds.
inline bool wait_for_cancel(const std::stop_token& cancel) {
  Event fired;
  std::stop_callback on_stop(cancel, [&fired] { fired.set(); });
  return fired.wait();
}

struct TestServer {
  explicit TestServer(Script script, const std::string& token = "", int max_calls = 8)
      : handler(std::move(script)) {
    PrefillServerOptions options;
    options.auth_token = token;
    options.model = "tiny";
    options.producer = Identity::of({{"weights", "w"}});
    options.limits = {.vocab = 100, .max_tokens = 1000};
    options.max_calls = max_calls;
    options.tokens_per_s = [] { return 123.5; };
    auto started = PrefillServer::start(std::move(options), handler);
    EXPECT_TRUE(started.ok()) << started.status().to_string();
    server = started.take();
  }
  Peer peer(const std::string& token = "") const {
    return {*parse_url("http://127.0.0.1:" + std::to_string(server->port())), token};
  }

  ScriptedHandler handler;
  std::unique_ptr<PrefillServer> server;
};

inline PrefillCall test_call() {
  PrefillCall call;
  call.transfer_id = "00112233445566778899aabbccddeeff";
  call.ids = {1, 2, 3, 4};
  call.resume_from = 2;
  call.identity = sha256("decoder");
  call.mode = SourceKind::kProject;
  return call;
}

}  // namespace isthmus
