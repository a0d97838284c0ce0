// SPDX-License-Identifier: Apache-2.0
// For net's tests only: a raw TCP client that sends exact bytes and reads replies, and a latch with a
// deadline.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/tcp.h"

namespace isthmus {

// Set once, waited for by any number of threads; a test that would hang fails instead.
class Event {
 public:
  void set() { promise_.set_value(); }
  bool wait(int64_t ms = 10'000) {
    return future_.wait_for(std::chrono::milliseconds(ms)) == std::future_status::ready;
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

class RawClient {
 public:
  explicit RawClient(uint16_t port) {
    auto stream = TcpStream::connect({"127.0.0.1", port}, IoLimits::within_ms(10'000));
    EXPECT_TRUE(stream.ok()) << stream.status().to_string();
    stream_ = stream.take();
  }

  Status send(std::string_view bytes) {
    const ConstBytes part = std::as_bytes(std::span(bytes));
    return stream_->write_all({&part, 1}, IoLimits::within_ms(10'000));
  }

  // Everything up to and with the marker; what has come so far if the connection ends or ten seconds pass
  // before.
  std::string read_until(std::string_view marker) {
    while (pending_.find(marker) == std::string::npos) {
      if (!receive()) return std::exchange(pending_, "");
    }
    const size_t end = pending_.find(marker) + marker.size();
    std::string out = pending_.substr(0, end);
    pending_.erase(0, end);
    return out;
  }

  // Head and body of one reply with Content-Length (or without any body).
  std::string read_reply() {
    std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    const size_t length = std::stoul(head.substr(at + 16));
    while (pending_.size() < length && receive()) {
    }
    head += pending_.substr(0, length);
    pending_.erase(0, length);
    return head;
  }

  std::string read_to_end() {
    while (receive()) {
    }
    return std::exchange(pending_, "");
  }

  TcpStream& stream() { return *stream_; }
  void close() { stream_.reset(); }

 private:
  bool receive() {
    std::byte buffer[4096];
    const Result<size_t> got = stream_->read_some(buffer, IoLimits::within_ms(10'000));
    if (!got.ok() || *got == 0) return false;
    pending_.append(reinterpret_cast<const char*>(buffer), *got);
    return true;
  }

  std::unique_ptr<TcpStream> stream_;
  std::string pending_;
};

inline std::unique_ptr<HttpServer> start_server(const HttpServerOptions& options, HttpHandler handler) {
  auto server = HttpServer::start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return server.take();
}

inline int status_of(const std::string& reply) {
  return reply.size() > 12 && reply.starts_with("HTTP/1.1 ") ? std::stoi(reply.substr(9, 3)) : -1;
}

}  // namespace isthmus
