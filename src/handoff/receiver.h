// SPDX-License-Identifier: Apache-2.0
// The decode box's end of the handoff: listens, authenticates, checks every frame against what is expected,
// and passes rows to the store as they arrive. One accept thread, one thread a connection; connections before
// authentication are few, short and read 64 bytes at most. Not the policy of what to expect (bridge/).
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/sync.h"
#include "flow/transfer.h"
#include "handoff/incoming.h"
#include "net/tcp.h"

namespace isthmus::handoff {

struct FrameTimeouts {
  std::chrono::milliseconds idle{30'000};    // without a byte; senders ping every 10 s
  std::chrono::milliseconds frame{120'000};  // for one frame, however steadily its bytes drip
};

struct ReceiverOptions {
  std::string bind_address = "127.0.0.1";
  uint16_t port = 8021;  // 0: any free one
  std::string token;     // both ends hold it; empty only on loopback
  int max_transfers = 8;
  int max_pending = 32;  // connections that have not authenticated
  std::chrono::milliseconds handshake_timeout{5'000};
  FrameTimeouts timeouts;
  uint64_t memory_floor_bytes = uint64_t{1} << 30;  // left free after a transfer's window of blocks
};

struct ReceiverStats {
  uint64_t connections = 0, refused = 0, unauthenticated = 0, transfers = 0, sealed = 0, failed = 0;
  int live = 0;  // transfers expected or running
};

class Receiver final : public TransferReceiver {
 public:
  static Result<std::unique_ptr<Receiver>> start(ReceiverOptions options);
  ~Receiver() override;

  Result<std::unique_ptr<IncomingTransfer>> expect(TransferSpec spec, std::unique_ptr<RowSink> sink) override;
  uint16_t port() const override { return listener_->port(); }
  ReceiverStats stats() const EXCLUDES(mutex_);

 private:
  class Handle;
  struct Connection {
    std::unique_ptr<TcpStream> stream;  // null when served; replaced under mutex_
    std::atomic<bool> done{false};
    std::jthread thread;
  };

  Receiver(ReceiverOptions options, std::unique_ptr<TcpListener> listener)
      : options_(std::move(options)), listener_(std::move(listener)) {}
  void accept_loop(const std::stop_token& stop);
  Status admit(std::unique_ptr<TcpStream> stream) EXCLUDES(mutex_);
  void run(Connection& c, const std::stop_token& stop) EXCLUDES(mutex_);
  void serve(ByteStream& stream, const std::stop_token& stop);
  void refused(const Status& why) EXCLUDES(mutex_);
  std::shared_ptr<Incoming> find(const std::string& id) EXCLUDES(mutex_);
  void forget(const std::string& id) EXCLUDES(mutex_);

  const ReceiverOptions options_;
  const std::unique_ptr<TcpListener> listener_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Incoming>> expected_ GUARDED_BY(mutex_);
  std::list<Connection> connections_ GUARDED_BY(mutex_);
  ReceiverStats stats_ GUARDED_BY(mutex_);
  std::atomic<int> pending_{0};
  std::jthread accept_thread_;
};

// The frames of one authenticated connection, from OPEN to SEAL. Returns why it ended; ok only after a seal.
Status receive_frames(ByteStream& stream, Incoming& incoming, const FrameTimeouts& timeouts,
                      const std::stop_token& stop);

}  // namespace isthmus::handoff
