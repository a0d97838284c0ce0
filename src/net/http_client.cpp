// SPDX-License-Identifier: Apache-2.0
#include "net/http_client.h"

#include <algorithm>
#include <exception>

#include "net/asio_stream.h"
#include "net/http_exchange.h"

namespace isthmus {
namespace {

Status check_call(const HttpCall& call) {
  const bool upper =
      std::all_of(call.method.begin(), call.method.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (call.method.empty() || !upper)
    return Status(Code::kInvalidArgument, "http client: expected a method in capitals");
  TRY(call.headers.validate());
  // A Url filled by hand instead of by parse_url could smuggle a second request line in.
  if (!parse_url(call.url.to_string()).ok())
    return Status(Code::kInvalidArgument, "http client: expected a valid URL");
  return Status();
}

}  // namespace

struct HttpClient::Impl {
  HttpClientOptions options;
  TlsContext tls;
};

Result<HttpClient> HttpClient::create(const HttpClientOptions& options) {
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  ASSIGN_OR_RETURN(impl->tls, make_tls_client_context(options.tls));
  return HttpClient(std::move(impl));
}

Result<HttpResponse> HttpClient::request(const HttpCall& call) const {
  return stream(call, nullptr, nullptr);
}

Result<HttpResponse> HttpClient::stream(const HttpCall& call, const OnHead& on_head,
                                        const OnData& on_data) const {
  TRY(check_call(call));
  const TlsContext plain;
  try {
    HttpExchange exchange(call, impl_->options, call.url.tls() ? impl_->tls : plain, on_head, on_data);
    return exchange.run();
  } catch (const std::exception& error) {  // Asio's constructors have no error_code form: out of descriptors
    return Status(Code::kResourceExhausted, std::string("http client: ") + error.what());
  }
}

}  // namespace isthmus
