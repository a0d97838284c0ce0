// SPDX-License-Identifier: Apache-2.0
#include "net/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/sync.h"
#include "net/http_session.h"

namespace isthmus {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Connections beyond max_connections that are still told why they are refused.
constexpr size_t kMaxRefusals = 32;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after running out of descriptors

Status listen_error(const HttpServerOptions& options, const error_code& ec) {
  return Status(Code::kUnavailable, "http_server: listen on " + options.address + ":" +
                                        std::to_string(options.port) + ": " + ec.message());
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpServerOptions& options, HttpHandler handler)
      : context(options, std::move(handler)),
        work(asio::make_work_guard(io)),
        acceptor(asio::any_io_executor(asio::make_strand(io))),
        accept_pause(acceptor.get_executor()) {
    context.on_closed = [this](const HttpSession* session) {
      const MutexLock lock(mutex);
      sessions.erase(session);
    };
  }

  Status listen();
  void accept();
  void on_accept(tcp::socket socket);
  void run_io();
  std::vector<std::shared_ptr<HttpSession>> open_sessions();
  void stop();

  HttpServerContext context;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  tcp::acceptor acceptor;
  asio::steady_timer accept_pause;
  uint16_t port = 0;
  std::vector<std::thread> io_threads;
  Mutex stop_mutex;
  Mutex mutex;
  std::unordered_map<const HttpSession*, std::shared_ptr<HttpSession>> sessions GUARDED_BY(mutex);
};

Status HttpServer::Impl::listen() {
  const HttpServerOptions& options = context.options;
  error_code ec;
  const auto address =
      asio::ip::make_address(options.address == "localhost" ? "127.0.0.1" : options.address, ec);
  if (ec) {
    return Status(Code::kInvalidArgument,
                  "http_server: expected a numeric address, got \"" + options.address + "\"");
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) port = acceptor.local_endpoint(ec).port();
  return ec ? listen_error(options, ec) : Status();
}

void HttpServer::Impl::accept() {
  if (context.stopping) return;
  acceptor.async_accept(asio::any_io_executor(asio::make_strand(io)),
                        [this](const error_code& ec, tcp::socket socket) {
                          if (ec == asio::error::operation_aborted || context.stopping) return;
                          if (!ec) {
                            on_accept(std::move(socket));
                            return accept();
                          }
                          log_warn("http_server: accept: {}", ec.message());
                          accept_pause.expires_after(kAcceptPause);
                          accept_pause.async_wait([this](const error_code& cancelled) {
                            if (!cancelled) accept();
                          });
                        });
}

void HttpServer::Impl::on_accept(tcp::socket socket) {
  auto session = std::make_shared<HttpSession>(std::move(socket), context);
  size_t open = 0;
  {
    const MutexLock lock(mutex);
    open = sessions.size();
    if (open < static_cast<size_t>(context.options.max_connections) + kMaxRefusals) {
      sessions.emplace(session.get(), session);
    }
  }
  if (open < static_cast<size_t>(context.options.max_connections)) return session->start();
  if (open < static_cast<size_t>(context.options.max_connections) + kMaxRefusals) session->start_refusing();
}

void HttpServer::Impl::run_io() {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {  // no memory for one request; its deadline closes that connection
      log_error("http_server: {}", error.what());
    }
  }
}

std::vector<std::shared_ptr<HttpSession>> HttpServer::Impl::open_sessions() {
  const MutexLock lock(mutex);
  std::vector<std::shared_ptr<HttpSession>> out;
  for (const auto& [key, session] : sessions) out.push_back(session);
  return out;
}

void HttpServer::Impl::stop() {
  const MutexLock only_once(stop_mutex);
  if (io_threads.empty()) return;
  context.stopping = true;
  asio::post(acceptor.get_executor(), [this] {
    error_code ignored;
    acceptor.close(ignored);
    accept_pause.cancel();
  });
  for (const auto& session : open_sessions()) session->stop_request();
  // The io threads still run: handlers may send their last reply.
  context.pool.stop();
  for (const auto& session : open_sessions()) session->close_now();
  work.reset();
  for (std::thread& thread : io_threads) thread.join();
  io_threads.clear();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options, HttpHandler handler) {
  if (options.io_threads < 1 || options.max_handlers < 1 || options.max_connections < 1) {
    return Status(Code::kInvalidArgument, "http_server: expected at least one thread and one connection");
  }
  try {
    auto impl = std::make_unique<Impl>(options, std::move(handler));
    if (!options.tls.cert_file.empty()) {
      ASSIGN_OR_RETURN(impl->context.tls, make_tls_server_context(options.tls));
    }
    TRY(impl->listen());
    Impl* raw = impl.get();
    std::unique_ptr<HttpServer> server(new HttpServer(std::move(impl)));  // NOLINT: private constructor
    for (int i = 0; i < options.io_threads; ++i) raw->io_threads.emplace_back([raw] { raw->run_io(); });
    asio::post(raw->acceptor.get_executor(), [raw] { raw->accept(); });
    return server;
  } catch (const std::exception& error) {  // no thread or no descriptor to be had
    return Status(Code::kResourceExhausted, std::string("http_server: ") + error.what());
  }
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

void HttpServer::stop() {
  impl_->stop();
}

}  // namespace isthmus
