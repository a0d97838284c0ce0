// SPDX-License-Identifier: Apache-2.0
// One TCP connection, plain or TLS, behind one type, so that Asio's templates are instantiated in one file.
// Internal to net/ (this header has Boost types: include it from net/*.cpp only). All calls on the socket's
// executor.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/http_message.h"

namespace boost::asio::ssl {
class context;
}

namespace isthmus {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

Result<TlsContext> make_tls_server_context(const TlsOptions& options);
Result<TlsContext> make_tls_client_context(const TlsOptions& options);

class AsioStream {
 public:
  using Done = std::function<void(boost::system::error_code, size_t)>;
  using Socket = boost::asio::ip::tcp::socket;

  AsioStream(Socket socket, const TlsContext& tls);  // tls null: plain
  ~AsioStream();

  // TLS only. expected_host (client): its certificate must be for this name.
  void handshake_as_server(std::function<void(boost::system::error_code)> done);
  void handshake_as_client(const std::string& expected_host,
                           std::function<void(boost::system::error_code)> done);

  // At most one read and one write at a time.
  void read_some(boost::asio::mutable_buffer buffer, Done done);
  void write_some(boost::asio::const_buffer buffer, Done done);

  Socket& socket();
  void shutdown_send();  // TCP half-close; errors are ignored: the peer may be gone
  void close();          // pending operations end with an error

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
