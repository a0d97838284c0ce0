// SPDX-License-Identifier: Apache-2.0
// The prefill box's end of the handoff. put() queues a block; a writer thread frames and sends it while the
// engine goes on, at most kWindowFrames unacknowledged; a reader thread takes ACKs. Connects only where it is
// told, and holds the token.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "flow/transfer.h"
#include "handoff/recorder.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

struct SenderOptions {
  std::string token;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds ping_every{
      10'000};  // keeps the receiver's idle time-out from firing during long chunks
  std::chrono::milliseconds ack_timeout{60'000};  // a receiver that does not take rows this long is gone
  size_t max_queued_blocks = 16;                  // put() blocks beyond; has_room() is false long before
  Recorder* recorder = nullptr;                   // outlives the sender; null: nothing is recorded
  // Test seam: wraps the connected stream (fault injection). Empty: none.
  std::function<std::unique_ptr<ByteStream>(std::unique_ptr<ByteStream>)> wrap;
};

class Sender final : public TransferSender {
 public:
  explicit Sender(SenderOptions options) : options_(std::move(options)) {}
  Result<std::unique_ptr<OutgoingTransfer>> open(const TransferSpec& spec, const std::string& host,
                                                 uint16_t port, std::stop_token cancel) override;

 private:
  const SenderOptions options_;
};

}  // namespace isthmus::handoff
