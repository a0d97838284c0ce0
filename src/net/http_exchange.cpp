// SPDX-License-Identifier: Apache-2.0
#include "net/http_exchange.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <stop_token>

namespace isthmus {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

std::string request_text(const HttpCall& call) {
  std::string out = call.method + " " + call.url.target() + " HTTP/1.1\r\nHost: " + call.url.authority() +
                    "\r\nConnection: close\r\nUser-Agent: isthmus/" ISTHMUS_VERSION "\r\n";
  for (const auto& [name, value] : call.headers.all()) out += name + ": " + value + "\r\n";
  if (!call.body.empty() || call.method == "POST" || call.method == "PUT") {
    out += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  return out + "\r\n" + call.body;
}

}  // namespace

HttpExchange::HttpExchange(const HttpCall& call, const HttpClientOptions& options, const TlsContext& tls,
                           const HttpClient::OnHead& on_head, const HttpClient::OnData& on_data)
    : call_(call),
      options_(options),
      tls_(tls),
      on_head_(on_head),
      on_data_(on_data),
      request_(request_text(call)) {
  new_parser();
}

void HttpExchange::new_parser() {
  parser_ = std::make_unique<HttpResponseParser>(options_.max_header_bytes, options_.max_response_bytes,
                                                 call_.method == "HEAD");
}

Result<HttpResponse> HttpExchange::run() {
  // posted, because a socket may only be touched from this thread
  const std::stop_callback on_stop(call_.stop, [this] {
    asio::post(io_, [this] { finish(Status(Code::kCancelled, "http client: stop requested")); });
  });
  if (call_.stop.stop_requested()) return Status(Code::kCancelled, "http client: stop requested");
  resolve();
  while (!result_) {
    if (io_.stopped()) io_.restart();
    if (io_.run_one_until(deadline()) == 0 && Clock::now() >= deadline()) {
      const char* phase = connected_ ? "waiting for the reply of " : "connecting to ";
      finish(Status(Code::kDeadlineExceeded,
                    std::string("http client: deadline passed ") + phase + call_.url.authority()));
    }
  }
  // Handlers that are still queued are dropped with io_; none runs after this.
  if (!result_->ok()) return *result_;
  return std::move(response_);
}

HttpExchange::Clock::time_point HttpExchange::deadline() const {
  const auto after = [](Clock::time_point from, int64_t ms) {
    return ms < 0 ? Clock::time_point::max() : from + std::chrono::milliseconds(ms);
  };
  const HttpTimeouts& timeouts = call_.timeouts;
  const auto phase = connected_ ? after(active_, timeouts.idle_ms) : after(started_, timeouts.connect_ms);
  return std::min(phase, after(started_, timeouts.total_ms));
}

void HttpExchange::finish(Status status) {
  if (result_) return;
  result_ = std::move(status);
  ErrorCode ignored;
  socket_.close(ignored);
  if (stream_) stream_->close();
}

void HttpExchange::connect_failed(const char* what, const ErrorCode& ec) {
  const bool untrusted = ec.category() == asio::error::get_ssl_category();
  finish(Status(untrusted ? Code::kUnauthenticated : Code::kUnavailable,
                std::string("http client: ") + what + " " + call_.url.authority() + ": " + ec.message()));
}

void HttpExchange::resolve() {
  ErrorCode ec;
  const auto address = asio::ip::make_address(call_.url.host, ec);
  if (!ec) return connect(Addresses::create(tcp::endpoint(address, call_.url.port), call_.url.host, ""));
  resolver_.async_resolve(call_.url.host, std::to_string(call_.url.port), tcp::resolver::numeric_service,
                          [this](const ErrorCode& error, const Addresses& addresses) {
                            if (result_) return;
                            if (error) return connect_failed("resolving", error);
                            connect(addresses);
                          });
}

void HttpExchange::connect(const Addresses& addresses) {
  asio::async_connect(socket_, addresses, [this](const ErrorCode& ec, const tcp::endpoint&) {
    if (result_) return;
    if (ec) return connect_failed("connecting to", ec);
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    stream_.emplace(std::move(socket_), tls_);
    if (!tls_) return on_connected();
    stream_->handshake_as_client(call_.url.host, [this](const ErrorCode& error) {
      if (result_) return;
      if (error) return connect_failed("TLS handshake with", error);
      on_connected();
    });
  });
}

void HttpExchange::on_connected() {
  connected_ = true;
  active_ = Clock::now();
  send_more();
  read_more();
}

void HttpExchange::send_more() {
  if (sent_ == request_.size()) return;
  stream_->write_some(asio::buffer(request_.data() + sent_, request_.size() - sent_),
                      [this](const ErrorCode& ec, size_t bytes) {
                        // A server may answer and close before it has read all of a body: its reply decides.
                        if (result_ || ec) return;
                        active_ = Clock::now();
                        sent_ += bytes;
                        send_more();
                      });
}

void HttpExchange::read_more() {
  stream_->read_some(asio::buffer(chunk_), [this](const ErrorCode& ec, size_t bytes) {
    if (!result_) on_read(ec, bytes);
  });
}

void HttpExchange::on_read(const ErrorCode& ec, size_t bytes) {
  active_ = Clock::now();
  if (!ec) {
    consume(std::string_view(chunk_.data(), bytes));
    if (!result_) read_more();
    return;
  }
  // A TLS peer that leaves without its closing alert may have been cut: only a self-delimiting body is whole
  // then.
  if (ec != asio::error::eof) {
    return finish(Status(Code::kUnavailable,
                         "http client: reading from " + call_.url.authority() + ": " + ec.message()));
  }
  Status end = parser_->feed_end();
  if (end.ok() && deliver()) finish(Status());
  if (!result_) finish(std::move(end));
}

void HttpExchange::consume(std::string_view bytes) {
  input_.append(bytes);
  while (!input_.empty() && !result_) {
    Result<size_t> used = parser_->feed(input_);
    if (!used.ok()) return finish(used.status());
    input_.erase(0, *used);
    if (parser_->done() && parser_->status() < 200) {
      new_parser();  // an interim reply such as 100; the real one follows
      continue;
    }
    if (!deliver()) return;
    if (parser_->done()) return finish(Status());
    if (*used == 0) return;
  }
}

bool HttpExchange::deliver() {
  if (!parser_->header_done() || parser_->status() < 200) return true;
  if (!head_delivered_) {
    head_delivered_ = true;
    response_.status = parser_->status();
    response_.headers = parser_->headers();
    response_.complete = !on_head_ || on_head_(response_);
  }
  std::string bytes = parser_->take_body();
  if (response_.complete && !bytes.empty()) {
    if (on_data_) {
      response_.complete = on_data_(bytes);
    } else {
      response_.body += bytes;
    }
  }
  if (!response_.complete) finish(Status());
  return response_.complete;
}

}  // namespace isthmus
