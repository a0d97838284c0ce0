// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 server. A few io threads read requests and write replies; a complete request runs `handler` on one
// of up to max_handlers handler threads, where it may block. A slow or half-open client never occupies a
// handler thread. start() to stop() is the life of an object; destroying it stops it. Knows no routes (see
// front/) and no tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/http_message.h"

namespace isthmus {

struct HttpRequest {
  std::string method;  // as sent: methods are case-sensitive
  std::string target;  // path and query, raw
  std::string path;    // raw, begins with '/' (or is "*"); see percent_decode in net/url.h
  std::string query;   // raw, without '?'
  HttpHeaders headers;
  std::string body;          // whole, chunks already joined
  std::string peer;          // "127.0.0.1:50514"
  bool is_loopback = false;  // the peer's address is one of this machine's loopback addresses
  // Fires within moments when the client closes its connection (a half-close counts) or the server stops.
  // Callbacks on it run on an io thread: they must not block.
  std::stop_token cancelled;
};

// One reply: either send() once, or begin_stream(), write()…, end(). Calls are serialised inside, so a
// heartbeat thread may write() (whole SSE comments) between another thread's writes; it must be joined before
// the handler returns. Every call blocks until the kernel has all bytes. Errors: kCancelled client gone or
// server stopped; kDeadlineExceeded client took nothing for write_timeout_ms; kInvalidArgument bad header
// (nothing was sent); kInternal wrong order of calls. A handler that returns without a reply gives 500; one
// that leaves a stream without end() cuts the connection, so that the client sees a truncated reply.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  virtual Status send(int status, std::string_view content_type, std::string_view body,
                      const HttpHeaders& headers = {}) = 0;
  virtual Status begin_stream(int status, std::string_view content_type, const HttpHeaders& headers = {}) = 0;
  virtual Status write(std::string_view bytes) = 0;  // one chunk, on its way when this returns
  virtual Status end() = 0;
};

using HttpHandler = std::function<void(const HttpRequest&, HttpResponder&)>;

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // numeric, or "localhost"
  uint16_t port = 0;                  // 0: any free one, see HttpServer::port()
  int io_threads = 2;                 // parse and copy only; two, so that a large body does not delay a token
  int max_handlers = 64;              // threads are started on demand and stay
  int max_queued_requests = 256;      // complete requests that wait for a handler thread; more: 503
  int max_connections = 512;          // more: 503
  uint32_t max_header_bytes = 32 << 10;   // more: 431
  uint64_t max_body_bytes = 16ull << 20;  // more: 413
  int64_t header_timeout_ms = 10'000;     // first byte (or connection, with TLS) to complete header, then 408
  int64_t body_timeout_ms = 30'000;       // longest pause inside a body, then 408
  int64_t idle_timeout_ms = 75'000;       // kept-alive connection without a request
  int64_t write_timeout_ms = 30'000;      // longest time in which a client may take no byte
  int64_t stop_grace_ms = 2'000;          // the same once stop() has been called
  TlsOptions tls;
};

class HttpServer {
 public:
  // Listens and serves at once. kUnavailable: address in use; kInvalidArgument: bad address or TLS files.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler handler);
  ~HttpServer();

  uint16_t port() const;
  // Stops accepting, fires `cancelled` of running requests, waits for their handlers, closes everything,
  // joins all threads. Idempotent. Never from a handler. A handler that ignores `cancelled` holds it up.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
