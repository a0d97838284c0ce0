// SPDX-License-Identifier: Apache-2.0
// One client call: resolve, connect, TLS, send while reading, end. Internal to net/ (Boost types). Runs its
// own io_context on the calling thread; only the stop token reaches in from outside.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>

#include "net/asio_stream.h"
#include "net/http_client.h"
#include "net/http_parse.h"

namespace isthmus {

class HttpExchange {
 public:
  HttpExchange(const HttpCall& call, const HttpClientOptions& options, const TlsContext& tls,
               const HttpClient::OnHead& on_head, const HttpClient::OnData& on_data);

  Result<HttpResponse> run();

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;
  using Addresses = boost::asio::ip::tcp::resolver::results_type;

  void resolve();
  void connect(const Addresses& addresses);
  void on_connected();
  void send_more();
  void read_more();
  void on_read(const ErrorCode& ec, size_t bytes);
  void consume(std::string_view bytes);
  bool deliver();  // false: the call is over
  void new_parser();
  void finish(Status status);
  void connect_failed(const char* what, const ErrorCode& ec);
  Clock::time_point deadline() const;

  const HttpCall& call_;
  const HttpClientOptions& options_;
  const TlsContext& tls_;
  const HttpClient::OnHead& on_head_;
  const HttpClient::OnData& on_data_;

  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::resolver resolver_{io_};
  AsioStream::Socket socket_{io_};  // until connected, then in stream_
  std::optional<AsioStream> stream_;
  std::unique_ptr<HttpResponseParser> parser_;
  std::string request_;
  size_t sent_ = 0;
  std::string input_;
  std::array<char, 16384> chunk_;

  const Clock::time_point started_ = Clock::now();
  Clock::time_point active_ = started_;  // last byte in either direction
  bool connected_ = false;
  bool head_delivered_ = false;
  HttpResponse response_;
  std::optional<Status> result_;
};

}  // namespace isthmus
