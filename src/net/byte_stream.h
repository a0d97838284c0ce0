// SPDX-License-Identifier: Apache-2.0
// ByteStream: the seam under the handoff transport. TcpStream is one; fault-injecting decorators and TLS wrap
// one. One reader thread and one writer thread at a time; close() from any thread. Blocking, with a deadline
// and a stop token per operation. Knows nothing about frames.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

#include "base/status.h"

namespace isthmus {

// What ends a blocking operation early. Default: nothing does.
struct IoLimits {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop;
  std::chrono::milliseconds idle = std::chrono::milliseconds::max();  // longest wait for one more byte

  // When a wait that begins now is over.
  std::chrono::steady_clock::time_point end_of_wait() const {
    if (idle == std::chrono::milliseconds::max()) return deadline;
    return std::min(deadline, std::chrono::steady_clock::now() + idle);
  }
  static IoLimits within_ms(int64_t ms, std::stop_token stop = {}) {
    return {std::chrono::steady_clock::now() + std::chrono::milliseconds(ms), std::move(stop)};
  }
};

using ConstBytes = std::span<const std::byte>;

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Fills all of out. kUnavailable: the peer closed or cut the connection (the message says after how many
  // bytes of how many); kDeadlineExceeded; kCancelled: stop requested or close() called here; kIo: anything
  // else. After any error the position in the stream is unknown: close it.
  virtual Status read_exact(std::span<std::byte> out, const IoLimits& limits) = 0;

  // Writes all parts in order (gather). Errors as read_exact; bytes may have left before the error.
  virtual Status write_all(std::span<const ConstBytes> parts, const IoLimits& limits) = 0;

  // Ends both directions and wakes a blocked reader and writer, here and at the peer. Idempotent, any thread.
  virtual void close() = 0;
};

}  // namespace isthmus
