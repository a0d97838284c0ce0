// SPDX-License-Identifier: Apache-2.0
// Blocking HTTP/1.1 client for worker threads: one connection per call, whole or streamed replies, prompt
// cancellation. Const after create(); any number of threads may call at once. Follows no redirects, keeps no
// cookies, uses no proxies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/http_message.h"
#include "net/url.h"

namespace isthmus {

struct HttpClientOptions {
  TlsOptions tls;
  uint32_t max_header_bytes = 64 << 10;
  uint64_t max_response_bytes = 64ull << 20;  // of one body, streamed ones included
};

struct HttpTimeouts {
  int64_t connect_ms = 5'000;  // name, connection and TLS handshake together
  int64_t idle_ms = 60'000;    // longest time without a byte in either direction; -1: none
  int64_t total_ms = -1;       // the whole call; -1: none
};

struct HttpCall {
  Url url;
  std::string method = "GET";
  HttpHeaders headers;  // besides Host, Connection, User-Agent and Content-Length, which the client sets
  std::string body;
  HttpTimeouts timeouts;
  std::stop_token stop;  // closes the connection at once (a name lookup that is under way ends first)
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  std::string body;      // empty in streamed calls
  bool complete = true;  // false: a callback ended the call early
};

// Any status is a response; errors are about the exchange itself. kUnavailable: no connection, or cut before
// the end; kUnauthenticated: the TLS certificate does not convince; kDeadlineExceeded; kCancelled: stop
// requested; kCorrupt: not HTTP; kResourceExhausted: over a limit; kInvalidArgument: bad method or header.
class HttpClient {
 public:
  using OnHead = std::function<bool(const HttpResponse& head)>;
  using OnData = std::function<bool(std::string_view bytes)>;

  // kInvalidArgument: TLS files. The store of authorities is read now, not per call.
  static Result<HttpClient> create(const HttpClientOptions& options);

  Result<HttpResponse> request(const HttpCall& call) const;

  // on_head once, then on_data per piece of body as it arrives, on this thread; false ends the call (no
  // error).
  Result<HttpResponse> stream(const HttpCall& call, const OnHead& on_head, const OnData& on_data) const;

 private:
  struct Impl;
  explicit HttpClient(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;  // immutable
};

}  // namespace isthmus
