// SPDX-License-Identifier: Apache-2.0
// One transfer being sent: the queue between the engine and the wire. put/seal/abort from one thread at a
// time; has_room from any.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/sync.h"
#include "flow/transfer.h"
#include "handoff/frame.h"
#include "handoff/sender.h"

namespace isthmus::handoff {

class Outgoing final : public OutgoingTransfer {
 public:
  // `stream` has passed the handshake. Sends OPEN and waits for its ACK before the threads start.
  static Result<std::unique_ptr<OutgoingTransfer>> open(std::unique_ptr<ByteStream> stream,
                                                        const TransferSpec& spec,
                                                        const SenderOptions& options, std::stop_token cancel);
  ~Outgoing() override;

  Status put(int64_t first, int64_t last, Bytes planes) override;
  Status seal(int64_t last) override;
  void abort(const Status& why) override;
  bool has_room() const override;

 private:
  struct Item {
    int64_t first = 0;
    int64_t last = 0;
    Bytes planes;
    bool seal = false;
  };

  Outgoing(std::unique_ptr<ByteStream> stream, TransferSpec spec, const SenderOptions& options,
           std::stop_token cancel);
  Status send_open();
  Status send(FrameType type, const Json& json, std::span<const ConstBytes> payload);
  void run_writer(const std::stop_token& stop);
  Status write_loop(const std::stop_token& stop);
  bool next_item(const std::stop_token& stop, Item* item) EXCLUDES(mutex_);
  Status send_block(const Item& item);
  Status send_seal(int64_t last);
  void run_reader(const std::stop_token& stop);
  Status read_loop(const std::stop_token& stop);
  Status take_ack(const Frame& frame) EXCLUDES(mutex_);
  void die(const Status& why) EXCLUDES(mutex_);
  bool let_writer_finish() EXCLUDES(mutex_);
  void give_up_on_silence() REQUIRES(mutex_);

  const std::unique_ptr<ByteStream> stream_;
  const TransferSpec spec_;
  const SenderOptions options_;

  // Writer thread (and send_open before it starts).
  uint32_t sequence_ = 0;
  uint64_t plane_bytes_ = 0;
  ByteWriter checksums_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Item> queue_ GUARDED_BY(mutex_);
  int64_t put_to_ GUARDED_BY(mutex_) = 0;   // end of the rows handed over
  int64_t sent_to_ GUARDED_BY(mutex_) = 0;  // end of the rows on the wire
  int64_t landed_ GUARDED_BY(mutex_) = 0;   // end of the rows acknowledged
  bool sealed_ GUARDED_BY(mutex_) = false;
  MonotonicTime heard_at_ GUARDED_BY(mutex_);  // last ACK, or when the first row owed one
  bool writing_ GUARDED_BY(mutex_) = false;    // the writer is between taking an item and having sent it
  Status dead_ GUARDED_BY(mutex_);

  std::stop_source halt_;  // interrupts a write
  std::jthread reader_;
  std::jthread writer_;
  std::stop_callback<std::function<void()>> on_cancel_;
};

}  // namespace isthmus::handoff
