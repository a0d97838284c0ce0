// SPDX-License-Identifier: Apache-2.0
// One server connection: an async read is always pending on it, so that a disconnect is seen while a handler
// runs and pipelined bytes are kept. Internal to net/ (Boost types). Lives on one strand, except where a
// comment says so.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "net/asio_stream.h"
#include "net/handler_pool.h"
#include "net/http_parse.h"
#include "net/http_server.h"

namespace isthmus {

class HttpSession;

// What all connections of one server share; outlives them.
struct HttpServerContext {
  HttpServerContext(const HttpServerOptions& o, HttpHandler h)
      : options(o), handler(std::move(h)), pool(o.max_handlers, o.max_queued_requests) {}
  const HttpServerOptions options;
  const HttpHandler handler;
  TlsContext tls;
  HandlerPool pool;
  std::atomic<bool> stopping{false};
  std::function<void(const HttpSession*)> on_closed;  // called once per session, on its strand
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(AsioStream::Socket socket, HttpServerContext& context);

  void start();           // any thread, once
  void start_refusing();  // any thread, once instead of start(): 503, then close
  void
  stop_request();  // any thread: server stops; fires the running request's token, closes when it is answered
  void close_now();  // any thread

  // Handler threads: queues head, body and tail (in that order; body is borrowed) and blocks until they are
  // flushed.
  Status write_and_wait(std::string head, std::string_view body, std::string_view tail);

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  enum class State { kHandshake, kReading, kHandling, kDraining, kClosed };
  struct Write {
    std::string head;
    std::string_view body;
    std::string_view tail;
    std::function<void(Status)> done;
  };

  template <typename F>
  void post(F function);
  void handshake();
  void begin_request();
  void consume();
  void dispatch();
  void run_handler(const std::shared_ptr<HttpRequest>& request, bool http_1_0, bool keep_alive);
  void on_handled(bool keep_alive);
  void read_more();
  void on_read(const ErrorCode& ec, size_t bytes);
  void fail_request(int status, const std::string& text);
  void drain();
  void close();

  void enqueue(Write write);
  void write_more();
  void on_written(const ErrorCode& ec, size_t bytes);
  void finish_writes(const Status& status);

  void set_read_deadline(int64_t ms);  // negative: none
  void set_write_deadline(int64_t ms);
  void arm_timer();
  void on_timer();

  HttpServerContext& context_;
  boost::asio::any_io_executor strand_;
  AsioStream stream_;
  boost::asio::steady_timer timer_;
  const std::string peer_;
  const bool is_loopback_;

  State state_ = State::kReading;
  std::unique_ptr<HttpRequestParser> parser_;
  bool continue_sent_ = false;
  bool header_seen_ = false;
  std::string input_;  // received, not yet parsed
  std::array<char, 16384> chunk_;
  bool read_pending_ = false;
  std::stop_source cancel_;  // of the running request

  std::deque<Write> writes_;
  size_t written_ = 0;  // bytes of writes_.front() that are out
  bool write_pending_ = false;

  bool write_timed_out_ = false;

  Clock::time_point read_deadline_ = Clock::time_point::max();
  Clock::time_point write_deadline_ = Clock::time_point::max();
  Clock::time_point timer_at_ = Clock::time_point::max();
};

}  // namespace isthmus
