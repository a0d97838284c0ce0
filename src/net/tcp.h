// SPDX-License-Identifier: Apache-2.0
// TCP for the handoff transport: a listener, a connector and a ByteStream over non-blocking sockets and
// poll(2). The caller owns the threads: a server runs one thread in accept() and gives each stream to
// another. Not HTTP (see net/http_server.h) and not authenticated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/byte_stream.h"
#include "net/url.h"

namespace isthmus {

class TcpStream final : public ByteStream {
 public:
  ~TcpStream() override;  // closes; no operation may be running

  // TCP_NODELAY is on for every new stream. Names are resolved by the system (not interruptible); each
  // address is tried in turn within the limits. kUnavailable: refused, unreachable or unknown name.
  static Result<std::unique_ptr<TcpStream>> connect(const HostPort& peer, const IoLimits& limits);

  Status read_exact(std::span<std::byte> out, const IoLimits& limits) override;
  Status write_all(std::span<const ConstBytes> parts, const IoLimits& limits) override;
  void close() override;

  // At least one byte, at most out.size(); 0 at the peer's orderly end. Errors as read_exact.
  Result<size_t> read_some(std::span<std::byte> out, const IoLimits& limits);
  // Ends our direction only: the peer reads to the end and may still answer.
  Status shutdown_write();
  Status set_nodelay(bool on);
  const HostPort& peer() const;  // numeric address

 private:
  friend class TcpListener;
  struct Impl;
  explicit TcpStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class TcpListener {
 public:
  ~TcpListener();

  // address: a numeric address or "localhost"; port 0 takes a free one. kUnavailable when the address is in
  // use.
  static Result<std::unique_ptr<TcpListener>> bind(const std::string& address = "127.0.0.1",
                                                   uint16_t port = 0);

  uint16_t port() const;
  // The next connection; errors as read_exact. A connection that died in the queue is skipped. One thread at
  // a time.
  Result<std::unique_ptr<TcpStream>> accept(const IoLimits& limits);
  // Wakes accept() with kCancelled, now and later. Any thread.
  void close();

 private:
  struct Impl;
  explicit TcpListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
