// SPDX-License-Identifier: Apache-2.0
#include "apps/child_server.h"

#include <chrono>

#include "net/http_client.h"

namespace isthmus {
namespace {

constexpr std::chrono::seconds kStartLimit{120};

bool answers(const HttpClient& client, uint16_t port) {
  HttpCall call;
  const auto url = parse_url(loopback_url(port) + "/health");
  if (!url.ok()) return false;
  call.url = *url;
  call.timeouts = {1'000, 1'000, 2'000};
  const auto reply = client.request(call);
  return reply.ok() && reply->status == 200;
}

}  // namespace

std::string loopback_url(uint16_t port) {
  return "http://127.0.0.1:" + std::to_string(port);
}

Status wait_until_up(Child& child, const char* role, uint16_t port) {
  ASSIGN_OR_RETURN(const HttpClient client, HttpClient::create({}));
  const auto until = std::chrono::steady_clock::now() + kStartLimit;
  while (std::chrono::steady_clock::now() < until) {
    if (answers(client, port)) return {};
    if (!child.running())
      return {Code::kUnavailable, std::string(role) + " ended while starting; its log is above"};
    if (end_signal_pending(50)) return {Code::kCancelled, "interrupted"};
  }
  return {Code::kDeadlineExceeded,
          std::string(role) + " did not answer in " + std::to_string(kStartLimit.count()) + " s"};
}

}  // namespace isthmus
