// SPDX-License-Identifier: Apache-2.0
#include "net/http_session.h"

#include <boost/asio/post.hpp>
#include <exception>

#include "base/log.h"
#include "net/http_responder.h"

namespace isthmus {
namespace {

namespace asio = boost::asio;

// Bytes a client may send ahead while its request is handled; beyond it we stop reading (and no longer see it
// go).
constexpr size_t kMaxPipelinedBytes = 64 << 10;
// How long after a closing reply the rest of the request is read and thrown away: closing at once would reset
// the connection and could destroy the reply on its way.
constexpr int64_t kDrainMs = 2'000;

std::string peer_name(const AsioStream::Socket& socket) {
  boost::system::error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return "unknown";
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port());
}

bool is_loopback_peer(const AsioStream::Socket& socket) {
  boost::system::error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return false;
  const auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace

HttpSession::HttpSession(AsioStream::Socket socket, HttpServerContext& context)
    : context_(context),
      strand_(socket.get_executor()),
      stream_(std::move(socket), context.tls),
      timer_(strand_),
      peer_(peer_name(stream_.socket())),
      is_loopback_(is_loopback_peer(stream_.socket())) {
  boost::system::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  stream_.socket().set_option(AsioStream::Socket::keep_alive(true),
                              ignored);  // a vanished host is noticed in the end
}

template <typename F>
void HttpSession::post(F function) {
  asio::post(strand_,
             [self = shared_from_this(), function = std::move(function)]() mutable { function(*self); });
}

void HttpSession::start() {
  post([](HttpSession& s) { s.context_.tls ? s.handshake() : s.begin_request(); });
}

void HttpSession::start_refusing() {
  post([](HttpSession& s) {
    if (s.context_.tls) return s.close();  // a handshake costs more than the refusal is worth
    s.fail_request(503, "too many connections");
  });
}

void HttpSession::stop_request() {
  post([](HttpSession& s) {
    if (s.state_ != State::kHandling) return s.close();
    if (s.write_pending_) s.set_write_deadline(s.context_.options.stop_grace_ms);
    s.cancel_.request_stop();
  });
}

void HttpSession::close_now() {
  post([](HttpSession& s) { s.close(); });
}

void HttpSession::handshake() {
  if (context_.stopping) return close();
  state_ = State::kHandshake;
  set_read_deadline(context_.options.header_timeout_ms);
  stream_.handshake_as_server([self = shared_from_this()](const ErrorCode& ec) {
    if (ec || self->state_ == State::kClosed) return self->close();
    self->begin_request();
  });
}

void HttpSession::begin_request() {
  if (context_.stopping) return close();
  state_ = State::kReading;
  parser_ =
      std::make_unique<HttpRequestParser>(context_.options.max_header_bytes, context_.options.max_body_bytes);
  continue_sent_ = header_seen_ = false;
  set_read_deadline(input_.empty() ? context_.options.idle_timeout_ms : context_.options.header_timeout_ms);
  consume();
}

void HttpSession::consume() {
  if (!input_.empty()) input_.erase(0, parser_->feed(input_));
  if (parser_->failure()) return fail_request(parser_->failure()->http_status, parser_->failure()->text);
  if (parser_->done()) return dispatch();
  if (parser_->header_done()) {
    header_seen_ = true;
    set_read_deadline(context_.options.body_timeout_ms);
  }
  if (parser_->wants_continue() && !continue_sent_) {
    continue_sent_ = true;
    enqueue({"HTTP/1.1 100 Continue\r\n\r\n", {}, {}, [](const Status&) {}});
  }
  read_more();
}

void HttpSession::dispatch() {
  HttpParsedRequest parsed = parser_->take();
  parser_.reset();
  auto request = std::make_shared<HttpRequest>();
  request->method = std::move(parsed.method);
  const size_t question = std::min(parsed.target.find('?'), parsed.target.size());
  request->path = parsed.target.substr(0, question);
  if (question < parsed.target.size()) request->query = parsed.target.substr(question + 1);
  request->target = std::move(parsed.target);
  request->headers = std::move(parsed.headers);
  request->body = std::move(parsed.body);
  request->peer = peer_;
  request->is_loopback = is_loopback_;
  cancel_ = std::stop_source();
  request->cancelled = cancel_.get_token();
  state_ = State::kHandling;
  set_read_deadline(-1);
  const bool accepted = context_.pool.submit(
      [self = shared_from_this(), request, http_1_0 = parsed.http_1_0, keep_alive = parsed.keep_alive] {
        self->run_handler(request, http_1_0, keep_alive);
      });
  if (!accepted) return fail_request(503, "too many requests");
  read_more();
}

// Handler thread.
void HttpSession::run_handler(const std::shared_ptr<HttpRequest>& request, bool http_1_0, bool keep_alive) {
  SessionResponder responder(*this, {request->method == "HEAD", http_1_0, keep_alive});
  if (!request->cancelled.stop_requested()) {
    try {
      context_.handler(*request, responder);
    } catch (const std::exception& error) {  // ours never throw; a library below them may (out of memory)
      log_error("http_server: handler of {} threw: {}", request->path, error.what());
    }
  }
  const bool reusable = responder.finish();
  post([reusable](HttpSession& s) { s.on_handled(reusable); });
}

void HttpSession::on_handled(bool keep_alive) {
  if (state_ == State::kClosed) return;
  cancel_ = std::stop_source(std::nostopstate);
  if (!keep_alive || context_.stopping) return drain();
  begin_request();
}

void HttpSession::read_more() {
  if (read_pending_ || state_ == State::kClosed) return;
  if (state_ == State::kHandling && input_.size() >= kMaxPipelinedBytes) return;
  read_pending_ = true;
  stream_.read_some(asio::buffer(chunk_), [self = shared_from_this()](const ErrorCode& ec, size_t bytes) {
    self->on_read(ec, bytes);
  });
}

void HttpSession::on_read(const ErrorCode& ec, size_t bytes) {
  read_pending_ = false;
  if (ec) return close();  // fires the running request's token
  switch (state_) {
    case State::kReading:
      if (input_.empty() && !header_seen_)
        set_read_deadline(context_.options.header_timeout_ms);  // the first byte
      input_.append(chunk_.data(), bytes);
      return consume();
    case State::kHandling:
      input_.append(chunk_.data(), bytes);
      return read_more();
    case State::kDraining:
      return read_more();
    case State::kHandshake:
    case State::kClosed:
      return;
  }
}

void HttpSession::fail_request(int status, const std::string& text) {
  state_ = State::kDraining;
  input_.clear();
  set_read_deadline(context_.options.write_timeout_ms + kDrainMs);
  enqueue({closing_reply(status, text), {}, {}, [self = shared_from_this()](const Status& written) {
             if (written.ok()) self->drain();
           }});
  read_more();
}

void HttpSession::drain() {
  if (state_ == State::kClosed) return;
  state_ = State::kDraining;
  input_.clear();
  stream_.shutdown_send();
  set_read_deadline(context_.stopping ? 0 : kDrainMs);
  read_more();
}

void HttpSession::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  cancel_.request_stop();
  stream_.close();
  timer_.cancel();
  if (!write_pending_) finish_writes(Status(Code::kCancelled, "http reply: the client is gone"));
  context_.on_closed(this);
}

Status HttpSession::write_and_wait(std::string head, std::string_view body, std::string_view tail) {
  struct Waiter {
    Mutex mutex;
    CondVar changed;
    std::optional<Status> result GUARDED_BY(mutex);
  };
  auto waiter = std::make_shared<Waiter>();
  post([waiter, head = std::move(head), body, tail](HttpSession& s) mutable {
    s.enqueue({std::move(head), body, tail, [waiter](Status status) {
                 const MutexLock lock(waiter->mutex);
                 waiter->result = std::move(status);
                 waiter->changed.notify_all();
               }});
  });
  const MutexLock lock(waiter->mutex);
  while (!waiter->result) waiter->changed.wait(waiter->mutex);
  return *waiter->result;
}

}  // namespace isthmus
