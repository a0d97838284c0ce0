// SPDX-License-Identifier: Apache-2.0
#include "handoff/receiver.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/thread.h"
#include "handoff/frame_format.h"
#include "handoff/handshake.h"

namespace isthmus::handoff {
namespace {

bool is_transfer_id(const std::string& id) {
  return id.size() == 2 * kTransferIdBytes && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

// What expect() hands out: dropping it ends the transfer and waits for its connection to let go of the sink.
class Receiver::Handle final : public IncomingTransfer {
 public:
  Handle(Receiver& receiver, std::shared_ptr<Incoming> incoming)
      : receiver_(receiver), incoming_(std::move(incoming)) {}
  ~Handle() override {
    receiver_.forget(incoming_->spec().id);
    incoming_->retire();
  }
  TransferState wait_until(MonotonicTime deadline, std::stop_token cancel) override {
    return incoming_->wait_until(deadline, cancel);
  }
  TransferState state() const override { return incoming_->state(); }
  void fail(const Status& why) override { incoming_->fail(why); }

 private:
  Receiver& receiver_;
  std::shared_ptr<Incoming> incoming_;
};

Result<std::unique_ptr<Receiver>> Receiver::start(ReceiverOptions options) {
  ASSIGN_OR_RETURN(auto listener, TcpListener::bind(options.bind_address, options.port));
  std::unique_ptr<Receiver> receiver(new Receiver(std::move(options), std::move(listener)));
  Receiver* const self = receiver.get();
  ASSIGN_OR_RETURN(self->accept_thread_,
                   start_thread([self](const std::stop_token& stop) { self->accept_loop(stop); }));
  return receiver;
}

Receiver::~Receiver() {
  accept_thread_.request_stop();
  listener_->close();
  if (accept_thread_.joinable()) accept_thread_.join();
  std::list<Connection> last;
  {
    MutexLock lock(mutex_);
    last.swap(connections_);
  }
  for (Connection& c : last) {
    c.thread.request_stop();
    MutexLock lock(mutex_);
    if (c.stream) c.stream->close();
  }
}

Result<std::unique_ptr<IncomingTransfer>> Receiver::expect(TransferSpec spec, std::unique_ptr<RowSink> sink) {
  if (!is_transfer_id(spec.id) || spec.first < 0 || spec.last < spec.first ||
      spec.first % spec.layout.block_tokens != 0) {
    return Status(Code::kInvalidArgument, "handoff: bad transfer (id, or rows [" +
                                              std::to_string(spec.first) + ", " + std::to_string(spec.last) +
                                              "))");
  }
  const uint64_t window =
      static_cast<uint64_t>(kWindowFrames + 1) * spec.layout.block_bytes(0, spec.layout.block_tokens);
  const uint64_t available = available_memory_bytes();
  if (available > 0 && available < options_.memory_floor_bytes + window) {
    return Status(Code::kResourceExhausted, "handoff: " + std::to_string(available >> 20) +
                                                " MiB of memory left, floor is " +
                                                std::to_string(options_.memory_floor_bytes >> 20) + " MiB");
  }
  const std::string id = spec.id;
  auto incoming = std::make_shared<Incoming>(std::move(spec), std::move(sink));
  MutexLock lock(mutex_);
  if (static_cast<int>(expected_.size()) >= options_.max_transfers) {
    return Status(Code::kResourceExhausted,
                  "handoff: " + std::to_string(expected_.size()) + " transfers are running");
  }
  if (!expected_.emplace(id, incoming).second)
    return Status(Code::kInvalidArgument, "handoff: transfer id in use");
  ++stats_.transfers;
  return std::unique_ptr<IncomingTransfer>(new Handle(*this, std::move(incoming)));
}

ReceiverStats Receiver::stats() const {
  MutexLock lock(mutex_);
  ReceiverStats s = stats_;
  s.live = static_cast<int>(expected_.size());
  return s;
}

std::shared_ptr<Incoming> Receiver::find(const std::string& id) {
  MutexLock lock(mutex_);
  const auto it = expected_.find(id);
  return it == expected_.end() ? nullptr : it->second;
}

void Receiver::forget(const std::string& id) {
  MutexLock lock(mutex_);
  expected_.erase(id);
}

void Receiver::accept_loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Status admitted = without_exceptions([&] {
      ASSIGN_OR_RETURN(auto stream, listener_->accept(IoLimits{MonotonicTime::max(), stop}));
      return admit(std::move(stream));
    });
    if (admitted.ok() || stop.stop_requested()) continue;
    log_warn("handoff: accept: {}", admitted.to_string());
    // Out of descriptors, threads or memory: give others time to return theirs.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// A connection gets a thread of its own, or is closed.
Status Receiver::admit(std::unique_ptr<TcpStream> stream) {
  MutexLock lock(mutex_);
  connections_.remove_if([](const Connection& c) { return c.done.load(); });
  ++stats_.connections;
  ++stats_.refused;  // until it has its thread
  if (pending_ >= options_.max_pending) return {};
  Connection& c = connections_.emplace_back();
  c.done = true;
  c.stream = std::move(stream);
  auto thread = start_thread([this, &c](const std::stop_token& stop) { run(c, stop); });
  if (!thread.ok()) {
    c.stream.reset();
    return thread.status();
  }
  c.done = false;
  c.thread = thread.take();
  ++pending_;
  --stats_.refused;
  return {};
}

void Receiver::run(Connection& c, const std::stop_token& stop) {
  {
    MutexLock admitted(mutex_);  // admit() has counted it
  }
  const Status served = without_exceptions([&] {
    serve(*c.stream, stop);
    return Status();
  });
  if (!served.ok()) refused(served);
  {
    MutexLock own(mutex_);
    c.stream.reset();  // its descriptors go now, the entry at the next connection
  }
  c.done = true;
}

void Receiver::refused(const Status& why) {
  log_warn("handoff: refused a connection: {}", why.to_string());
  MutexLock lock(mutex_);
  if (why.code() == Code::kUnauthenticated) ++stats_.unauthenticated;
  ++stats_.refused;
}

void Receiver::serve(ByteStream& stream, const std::stop_token& stop) {
  const auto limits = IoLimits{std::chrono::steady_clock::now() + options_.handshake_timeout, stop};
  Result<std::string> id = Status(Code::kInternal, "handoff: no handshake");
  const Status shaken = without_exceptions([&] {
    id = accept_handshake(stream, options_.token, limits);
    return id.status();
  });
  --pending_;
  if (!shaken.ok()) return refused(shaken);
  const std::shared_ptr<Incoming> incoming = find(*id);
  if (incoming == nullptr || !incoming->claim([&stream] { stream.close(); })) {
    return refused(
        Status(Code::kNotFound, "handoff: transfer " + *id + " is not expected here, or was used"));
  }
  const Status ended =
      without_exceptions([&] { return receive_frames(stream, *incoming, options_.timeouts, stop); });
  incoming->let_go(ended);
  MutexLock lock(mutex_);
  ++(ended.ok() ? stats_.sealed : stats_.failed);
}

}  // namespace isthmus::handoff
