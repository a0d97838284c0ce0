// SPDX-License-Identifier: Apache-2.0
// The handoff as the other stages see it: the decode box expects a transfer and waits for it; the prefill box
// opens one and puts rows into it. Implemented by handoff/. Thread rules per class.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "flow/plane.h"
#include "flow/prefix_store.h"
#include "flow/source.h"

namespace isthmus {

// What both ends must agree on before a row moves; OPEN carries it and the receiver compares every field.
struct TransferSpec {
  std::string id;             // 32 hex digits, chosen by the decode box, used once
  int64_t prompt_tokens = 0;  // T
  int64_t first = 0;          // S: rows [first, last) are shipped; a multiple of P
  int64_t last = 0;           // T - 1: the last prompt token belongs to the decoder
  Digest ids;                 // ids_digest of the whole prompt
  Digest identity;            // of the decoder
  Source source;              // capture mode and producer
  PlaneLayout layout;
};

struct TransferState {
  int64_t landed = 0;   // rows [first, landed) are visible in the store
  bool sealed = false;  // SEAL arrived and everything it claims had landed
  bool ended = false;   // sealed, or failed with `error`
  Status error;         // why it ended without a seal
  uint64_t frames = 0;
  uint64_t payload_bytes = 0;  // plane bytes received (headers excluded)
  double first_rows_s = 0;     // since expect(): first and last row visible, seal seen; 0: not yet
  double last_rows_s = 0;
  double sealed_s = 0;
};

// One expected transfer on the decode box. Any thread. Dropping it ends the transfer and closes its
// connection.
class IncomingTransfer {
 public:
  virtual ~IncomingTransfer() = default;
  // Returns when the transfer ended, `deadline` passed or `cancel` fired, whichever is first.
  virtual TransferState wait_until(MonotonicTime deadline, std::stop_token cancel) = 0;
  virtual TransferState state() const = 0;
  // Ends it from this side, e.g. because the prefill engine reported an error. The first reason stays.
  virtual void fail(const Status& why) = 0;
};

class TransferReceiver {
 public:
  virtual ~TransferReceiver() = default;
  // Rows go into `sink` as they arrive. Errors: kResourceExhausted (transfers, memory floor),
  // kInvalidArgument.
  virtual Result<std::unique_ptr<IncomingTransfer>> expect(TransferSpec spec,
                                                           std::unique_ptr<RowSink> sink) = 0;
  virtual uint16_t port() const = 0;
};

// The prefill box's end of one transfer. put() hands a frame to the sender's own thread and blocks only when
// the queue is far over its window; a receiver that is gone makes put() and seal() fail. seal() returns after
// the receiver's last ACK.
class OutgoingTransfer : public RowSink {
 public:
  virtual bool has_room() const = 0;  // the window is open; any thread
};

class TransferSender {
 public:
  virtual ~TransferSender() = default;
  // Connects to host:port, authenticates and sends OPEN. Errors: kUnavailable, kUnauthenticated, kMismatch,
  // kResourceExhausted.
  virtual Result<std::unique_ptr<OutgoingTransfer>> open(const TransferSpec& spec, const std::string& host,
                                                         uint16_t port, std::stop_token cancel) = 0;
};

}  // namespace isthmus
