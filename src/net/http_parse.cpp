// SPDX-License-Identifier: Apache-2.0
#include "net/http_parse.h"

#include <algorithm>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>

namespace isthmus {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// A body that grows with what really arrives; Beast's own string body reserves whatever Content-Length
// announces.
struct AppendBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>&, error_code& ec) { ec = {}; }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& ec) {
      ec = {};
      const std::size_t before = body_.size();
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it) {
        const asio::const_buffer piece = *it;
        body_.append(static_cast<const char*>(piece.data()), piece.size());
      }
      return body_.size() - before;
    }

    void finish(error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

template <class Parser>
size_t feed_all(Parser& parser, std::string_view bytes, error_code& ec) {
  size_t used = 0;
  while (used < bytes.size() && !parser.is_done()) {
    used += parser.put(asio::const_buffer(bytes.data() + used, bytes.size() - used), ec);
    if (ec) break;
  }
  if (ec == http::error::need_more) ec = {};
  return used;
}

template <class Fields>
HttpHeaders copy_headers(const Fields& fields) {
  HttpHeaders out;
  for (const auto& field : fields) out.add(std::string(field.name_string()), std::string(field.value()));
  return out;
}

HttpRequestParser::Failure failure_of(const error_code& ec) {
  if (ec == http::error::header_limit) return {431, "header too large"};
  if (ec == http::error::body_limit) return {413, "body too large"};
  return {400, "malformed request: " + ec.message()};
}

// What Beast lets through and we do not.
std::optional<HttpRequestParser::Failure> check_request(const http::request_header<>& request) {
  using Failure = HttpRequestParser::Failure;
  const size_t hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() == 11)) return Failure{400, "expected one Host header"};
  const auto target = request.target();
  if (target.empty() || (target.front() != '/' && target != "*")) {
    return Failure{400, "expected a target that begins with '/'"};
  }
  const size_t codings = request.count(http::field::transfer_encoding);
  if (codings > 0 && request.version() == 10) return Failure{400, "transfer encoding in HTTP/1.0"};
  if (codings > 1 || (codings == 1 && !iequals_ascii(request[http::field::transfer_encoding], "chunked"))) {
    return Failure{501, "expected no transfer encoding but chunked"};
  }
  const auto expect = request[http::field::expect];
  if (!expect.empty() && !iequals_ascii(expect, "100-continue")) return Failure{417, "expected 100-continue"};
  return std::nullopt;
}

}  // namespace

struct HttpRequestParser::Impl {
  http::request_parser<AppendBody> parser;
  std::optional<Failure> failure;
  bool checked = false;
};

HttpRequestParser::HttpRequestParser(uint32_t max_header_bytes, uint64_t max_body_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(max_header_bytes);
  impl_->parser.body_limit(max_body_bytes);
}

HttpRequestParser::~HttpRequestParser() = default;

size_t HttpRequestParser::feed(std::string_view bytes) {
  Impl& impl = *impl_;
  size_t used = 0;
  error_code ec;
  if (!impl.parser.is_header_done()) {
    // Not eager yet: this stops behind the header, so that a refused request's body is never kept.
    used = impl.parser.put(asio::const_buffer(bytes.data(), bytes.size()), ec);
    if (ec == http::error::need_more) ec = {};
  }
  if (!ec && impl.parser.is_header_done()) {
    if (!impl.checked) {
      impl.checked = true;
      impl.failure = check_request(impl.parser.get());
      impl.parser.eager(true);
    }
    if (!impl.failure) used += feed_all(impl.parser, bytes.substr(used), ec);
  }
  if (ec) impl.failure = failure_of(ec);
  return used;
}

bool HttpRequestParser::header_done() const {
  return impl_->parser.is_header_done();
}
bool HttpRequestParser::done() const {
  return !impl_->failure && impl_->parser.is_done();
}

bool HttpRequestParser::wants_continue() const {
  const auto& parser = impl_->parser;
  return !impl_->failure && parser.is_header_done() && !parser.is_done() && parser.get().version() == 11 &&
         parser.get().body().empty() && !parser.get()[http::field::expect].empty();
}

const std::optional<HttpRequestParser::Failure>& HttpRequestParser::failure() const {
  return impl_->failure;
}

HttpParsedRequest HttpRequestParser::take() {
  auto message = impl_->parser.release();
  HttpParsedRequest out;
  out.method = std::string(message.method_string());
  out.target = std::string(message.target());
  out.headers = copy_headers(message);
  out.http_1_0 = message.version() == 10;
  out.keep_alive = message.keep_alive();
  out.body = std::move(message.body());
  return out;
}

struct HttpResponseParser::Impl {
  http::response_parser<AppendBody> parser;
};

HttpResponseParser::HttpResponseParser(uint32_t max_header_bytes, uint64_t max_body_bytes, bool head_request)
    : impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(max_header_bytes);
  impl_->parser.body_limit(max_body_bytes);
  impl_->parser.skip(head_request);
  impl_->parser.eager(true);
}

HttpResponseParser::~HttpResponseParser() = default;

Result<size_t> HttpResponseParser::feed(std::string_view bytes) {
  error_code ec;
  const size_t used = feed_all(impl_->parser, bytes, ec);
  if (!ec) return used;
  if (ec == http::error::header_limit || ec == http::error::body_limit) {
    return Status(Code::kResourceExhausted, "http response: " + ec.message());
  }
  return Status(Code::kCorrupt, "http response: " + ec.message());
}

Status HttpResponseParser::feed_end() {
  error_code ec;
  if (!impl_->parser.is_done()) {
    if (!impl_->parser.got_some())
      return Status(Code::kUnavailable, "http response: closed before the first byte");
    impl_->parser.put_eof(ec);
  }
  if (!ec) return Status();
  return Status(Code::kUnavailable, "http response: closed in the middle: " + ec.message());
}

bool HttpResponseParser::header_done() const {
  return impl_->parser.is_header_done();
}
bool HttpResponseParser::done() const {
  return impl_->parser.is_done();
}
int HttpResponseParser::status() const {
  return static_cast<int>(impl_->parser.get().result_int());
}
HttpHeaders HttpResponseParser::headers() const {
  return copy_headers(impl_->parser.get());
}

std::string HttpResponseParser::take_body() {
  std::string out;
  out.swap(impl_->parser.get().body());
  return out;
}

}  // namespace isthmus
