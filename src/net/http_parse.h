// SPDX-License-Identifier: Apache-2.0
// Incremental HTTP/1.1 message parsers: bytes in, one message out. Internal to net/; the only place that
// knows Beast. One thread per object. Refuses what is ambiguous (two lengths, odd transfer codings, no Host)
// instead of guessing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/http_message.h"

namespace isthmus {

struct HttpParsedRequest {
  std::string method;
  std::string target;
  HttpHeaders headers;
  std::string body;
  bool http_1_0 = false;
  bool keep_alive = true;
};

class HttpRequestParser {
 public:
  struct Failure {
    int http_status;  // 400, 413, 417, 431, 501
    std::string text;
  };

  HttpRequestParser(uint32_t max_header_bytes, uint64_t max_body_bytes);
  ~HttpRequestParser();

  // Consumes what it can of bytes and returns how many; the rest must be shown again with more behind it.
  size_t feed(std::string_view bytes);

  bool header_done() const;
  bool done() const;
  bool wants_continue() const;  // the header is done, asks for "100 Continue", and the body has not come yet
  const std::optional<Failure>& failure() const;
  HttpParsedRequest take();  // once, when done()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class HttpResponseParser {
 public:
  // max_body_bytes bounds the whole body. head_request: a HEAD reply has no body.
  HttpResponseParser(uint32_t max_header_bytes, uint64_t max_body_bytes, bool head_request);
  ~HttpResponseParser();

  // As HttpRequestParser::feed. kCorrupt: malformed; kResourceExhausted: over a limit.
  Result<size_t> feed(std::string_view bytes);
  // The peer closed. ok if that ends the message properly; kUnavailable if it cuts it.
  Status feed_end();

  bool header_done() const;
  bool done() const;
  int status() const;
  HttpHeaders headers() const;
  std::string take_body();  // the body bytes since the last call

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
