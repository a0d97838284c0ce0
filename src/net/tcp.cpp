// SPDX-License-Identifier: Apache-2.0
#include "net/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/fs.h"
#include "net/wake_poll.h"

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // SO_NOSIGPIPE is set on the socket instead
#endif

namespace isthmus {
namespace {

constexpr int kBacklog = 128;
constexpr size_t kMaxGather = 64;  // iovecs in one sendmsg; far below every system's IOV_MAX

Status io_error(const char* where, int error) {
  const bool gone = error == ECONNRESET || error == EPIPE || error == ECONNREFUSED || error == EHOSTUNREACH ||
                    error == ENETUNREACH || error == ETIMEDOUT || error == ECONNABORTED ||
                    error == ENOTCONN || error == EADDRINUSE || error == EADDRNOTAVAIL;
  return Status(gone ? Code::kUnavailable : Code::kIo, std::string(where) + ": " + std::strerror(error));
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

Status prepare_socket(int fd, const char* where) {
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
    return io_error(where, errno);
#ifdef SO_NOSIGPIPE
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return Status();
}

HostPort numeric_address(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {text, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return {text, ntohs(v6.sin6_port)};
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return Status(Code::kUnavailable, "tcp: host " + host + ": " + ::gai_strerror(error));
  return AddressList(list, &::freeaddrinfo);
}

}  // namespace

struct TcpStream::Impl {
  UniqueFd socket;
  HostPort peer;
  WakePoll read_wake;   // used by the one reader
  WakePoll write_wake;  // used by the one writer

  static Result<std::unique_ptr<Impl>> make(UniqueFd socket, HostPort peer) {
    auto impl = std::make_unique<Impl>();
    impl->socket = std::move(socket);
    impl->peer = std::move(peer);
    TRY(impl->read_wake.open());
    TRY(impl->write_wake.open());
    return impl;
  }
  Status connect_to(const addrinfo& address, const IoLimits& limits);
};

Status TcpStream::Impl::connect_to(const addrinfo& address, const IoLimits& limits) {
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return Status();
  if (errno != EINPROGRESS) return io_error("tcp connect", errno);
  TRY(write_wake.wait(socket.get(), POLLOUT, limits, "tcp connect"));
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? Status() : io_error("tcp connect", error);
}

TcpStream::TcpStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpStream::~TcpStream() = default;

Result<std::unique_ptr<TcpStream>> TcpStream::connect(const HostPort& peer, const IoLimits& limits) {
  ASSIGN_OR_RETURN(const AddressList list, resolve(peer.host, peer.port, 0));
  Status last(Code::kUnavailable, "tcp connect: no address for " + peer.to_string());
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    UniqueFd socket(::socket(address->ai_family, SOCK_STREAM, 0));
    if (socket.get() < 0) {
      last = io_error("tcp socket", errno);
      continue;
    }
    TRY(prepare_socket(socket.get(), "tcp socket"));
    sockaddr_storage numeric{};
    std::memcpy(&numeric, address->ai_addr, std::min<size_t>(address->ai_addrlen, sizeof numeric));
    ASSIGN_OR_RETURN(auto impl, Impl::make(std::move(socket), numeric_address(numeric)));
    last = impl->connect_to(*address, limits);
    if (last.ok()) {
      std::unique_ptr<TcpStream> stream(new TcpStream(std::move(impl)));  // NOLINT: private constructor
      TRY(stream->set_nodelay(true));
      return stream;
    }
    if (last.code() == Code::kCancelled || last.code() == Code::kDeadlineExceeded) break;
  }
  return Status(last.code(), last.message() + " (" + peer.to_string() + ")");
}

Result<size_t> TcpStream::read_some(std::span<std::byte> out, const IoLimits& limits) {
  if (out.empty()) return size_t{0};
  while (true) {
    TRY(impl_->read_wake.wait(impl_->socket.get(), POLLIN, limits, "tcp read"));
    const ssize_t got = ::recv(impl_->socket.get(), out.data(), out.size(), 0);
    if (got >= 0) return static_cast<size_t>(got);
    if (!would_block(errno) && errno != EINTR) return io_error("tcp read", errno);
  }
}

Status TcpStream::read_exact(std::span<std::byte> out, const IoLimits& limits) {
  size_t done = 0;
  while (done < out.size()) {
    ASSIGN_OR_RETURN(const size_t got, read_some(out.subspan(done), limits));
    if (got == 0) {
      return Status(Code::kUnavailable, "tcp read: expected " + std::to_string(out.size()) +
                                            " bytes, got the peer's end after " + std::to_string(done));
    }
    done += got;
  }
  return Status();
}

Status TcpStream::write_all(std::span<const ConstBytes> parts, const IoLimits& limits) {
  size_t index = 0;   // first part that is not done
  size_t offset = 0;  // bytes of it that are
  while (true) {
    while (index < parts.size() && offset == parts[index].size()) {
      ++index;
      offset = 0;
    }
    if (index == parts.size()) return Status();
    std::array<iovec, kMaxGather> gather;
    size_t count = 0;
    for (size_t i = index; i < parts.size() && count < kMaxGather; ++i, ++count) {
      const ConstBytes part = parts[i].subspan(i == index ? offset : 0);
      gather[count] = {const_cast<std::byte*>(part.data()), part.size()};  // sendmsg only reads
    }
    TRY(impl_->write_wake.wait(impl_->socket.get(), POLLOUT, limits, "tcp write"));
    msghdr message{};
    message.msg_iov = gather.data();
    message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
    const ssize_t sent = ::sendmsg(impl_->socket.get(), &message, kSendFlags);
    if (sent < 0) {
      if (would_block(errno) || errno == EINTR) continue;
      return io_error("tcp write", errno);
    }
    for (size_t left = static_cast<size_t>(sent); left > 0;) {
      const size_t step = std::min(left, parts[index].size() - offset);
      left -= step;
      offset += step;
      if (offset == parts[index].size()) {
        ++index;
        offset = 0;
      }
    }
  }
}

void TcpStream::close() {
  // The descriptor itself lives until the destructor: another thread may be inside a call on it.
  ::shutdown(impl_->socket.get(), SHUT_RDWR);
  impl_->read_wake.wake();
  impl_->write_wake.wake();
}

Status TcpStream::shutdown_write() {
  return ::shutdown(impl_->socket.get(), SHUT_WR) == 0 ? Status() : io_error("tcp shutdown", errno);
}

Status TcpStream::set_nodelay(bool on) {
  const int value = on ? 1 : 0;
  const int failed = ::setsockopt(impl_->socket.get(), IPPROTO_TCP, TCP_NODELAY, &value, sizeof value);
  return failed == 0 ? Status() : io_error("tcp nodelay", errno);
}

const HostPort& TcpStream::peer() const {
  return impl_->peer;
}

struct TcpListener::Impl {
  UniqueFd socket;
  WakePoll wake;
  uint16_t port = 0;
};

TcpListener::TcpListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TcpListener::~TcpListener() = default;

Result<std::unique_ptr<TcpListener>> TcpListener::bind(const std::string& address, uint16_t port) {
  const std::string numeric = address == "localhost" ? "127.0.0.1" : address;
  ASSIGN_OR_RETURN(const AddressList list, resolve(numeric, port, AI_PASSIVE | AI_NUMERICHOST));
  auto impl = std::make_unique<Impl>();
  TRY(impl->wake.open());
  impl->socket = UniqueFd(::socket(list->ai_family, SOCK_STREAM, 0));
  const int fd = impl->socket.get();
  if (fd < 0) return io_error("tcp socket", errno);
  TRY(prepare_socket(fd, "tcp socket"));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd, kBacklog) != 0) {
    const Status failed = io_error("tcp bind", errno);
    return Status(failed.code(), failed.message() + " (" + HostPort{numeric, port}.to_string() + ")");
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return io_error("tcp bind", errno);
  impl->port = numeric_address(bound).port;
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(impl)));  // NOLINT: private constructor
}

uint16_t TcpListener::port() const {
  return impl_->port;
}

Result<std::unique_ptr<TcpStream>> TcpListener::accept(const IoLimits& limits) {
  while (true) {
    TRY(impl_->wake.wait(impl_->socket.get(), POLLIN, limits, "tcp accept"));
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    UniqueFd socket(::accept(impl_->socket.get(), reinterpret_cast<sockaddr*>(&address), &size));
    if (socket.get() < 0) {
      if (would_block(errno) || errno == EINTR || errno == ECONNABORTED) continue;
      return io_error("tcp accept", errno);
    }
    TRY(prepare_socket(socket.get(), "tcp accept"));
    ASSIGN_OR_RETURN(auto impl, TcpStream::Impl::make(std::move(socket), numeric_address(address)));
    std::unique_ptr<TcpStream> stream(new TcpStream(std::move(impl)));  // NOLINT: private constructor
    TRY(stream->set_nodelay(true));
    return stream;
  }
}

void TcpListener::close() {
  impl_->wake.wake();
}

}  // namespace isthmus
