// SPDX-License-Identifier: Apache-2.0
#include "net/asio_stream.h"

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <variant>

namespace isthmus {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using TlsStream = asio::ssl::stream<asio::ip::tcp::socket>;

Status tls_error(const std::string& what, const error_code& ec) {
  return Status(Code::kInvalidArgument, "tls: " + what + ": " + ec.message());
}

Status load_identity(asio::ssl::context& context, const TlsOptions& options) {
  error_code ec;
  context.use_certificate_chain_file(options.cert_file, ec);
  if (ec) return tls_error("certificate " + options.cert_file, ec);
  context.use_private_key_file(options.key_file, asio::ssl::context::pem, ec);
  if (ec) return tls_error("private key " + options.key_file, ec);
  return Status();
}

Status load_authorities(asio::ssl::context& context, const std::string& ca_file) {
  error_code ec;
  if (ca_file.empty()) {
    context.set_default_verify_paths(ec);
  } else {
    context.load_verify_file(ca_file, ec);
  }
  return ec ? tls_error("authorities " + ca_file, ec) : Status();
}

Result<TlsContext> make_context(asio::ssl::context::method method) {
  try {
    auto context = std::make_shared<asio::ssl::context>(method);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    return context;
  } catch (const std::exception& error) {  // the constructor has no error_code form
    return Status(Code::kInternal, std::string("tls: ") + error.what());
  }
}

}  // namespace

Result<TlsContext> make_tls_server_context(const TlsOptions& options) {
  ASSIGN_OR_RETURN(TlsContext context, make_context(asio::ssl::context::tls_server));
  TRY(load_identity(*context, options));
  if (!options.ca_file.empty()) {
    TRY(load_authorities(*context, options.ca_file));
    context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

Result<TlsContext> make_tls_client_context(const TlsOptions& options) {
  ASSIGN_OR_RETURN(TlsContext context, make_context(asio::ssl::context::tls_client));
  TRY(load_authorities(*context, options.ca_file));
  if (!options.cert_file.empty()) TRY(load_identity(*context, options));
  context->set_verify_mode(asio::ssl::verify_peer);
  return context;
}

struct AsioStream::Impl {
  TlsContext tls;  // keeps the context alive while the stream uses it
  std::variant<std::monostate, Socket, TlsStream> stream;
};

AsioStream::AsioStream(Socket socket, const TlsContext& tls) : impl_(std::make_unique<Impl>()) {
  impl_->tls = tls;
  if (tls) {
    impl_->stream.emplace<TlsStream>(std::move(socket), *tls);
  } else {
    impl_->stream.emplace<Socket>(std::move(socket));
  }
}

AsioStream::~AsioStream() = default;

void AsioStream::handshake_as_server(std::function<void(error_code)> done) {
  std::get<TlsStream>(impl_->stream).async_handshake(asio::ssl::stream_base::server, std::move(done));
}

void AsioStream::handshake_as_client(const std::string& expected_host, std::function<void(error_code)> done) {
  TlsStream& stream = std::get<TlsStream>(impl_->stream);
  error_code ec;
  asio::ip::make_address(expected_host, ec);
  // Server name indication carries names only, never addresses.
  if (ec) SSL_set_tlsext_host_name(stream.native_handle(), expected_host.c_str());
  stream.set_verify_callback(asio::ssl::host_name_verification(expected_host), ec);
  stream.async_handshake(asio::ssl::stream_base::client, std::move(done));
}

void AsioStream::read_some(asio::mutable_buffer buffer, Done done) {
  if (auto* tls = std::get_if<TlsStream>(&impl_->stream)) {
    tls->async_read_some(buffer, std::move(done));
  } else {
    std::get<Socket>(impl_->stream).async_read_some(buffer, std::move(done));
  }
}

void AsioStream::write_some(asio::const_buffer buffer, Done done) {
  if (auto* tls = std::get_if<TlsStream>(&impl_->stream)) {
    tls->async_write_some(buffer, std::move(done));
  } else {
    std::get<Socket>(impl_->stream).async_write_some(buffer, std::move(done));
  }
}

AsioStream::Socket& AsioStream::socket() {
  if (auto* tls = std::get_if<TlsStream>(&impl_->stream)) return tls->next_layer();
  return std::get<Socket>(impl_->stream);
}

void AsioStream::shutdown_send() {
  error_code ignored;
  socket().shutdown(Socket::shutdown_send, ignored);
}

void AsioStream::close() {
  error_code ignored;
  socket().shutdown(Socket::shutdown_both, ignored);
  socket().close(ignored);
}

}  // namespace isthmus
