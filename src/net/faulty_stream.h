// SPDX-License-Identifier: Apache-2.0
// ByteStream decorator that misbehaves on purpose at chosen byte offsets: the fault tables of tests are built
// from it. Owns the stream it wraps; threads as ByteStream. Not random: every fault happens at the same byte
// in every run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "net/byte_stream.h"

namespace isthmus {

struct StreamFault {
  enum class Kind {
    kShort,    // pass on at most `amount` bytes per inner operation from offset on
    kCut,      // close the stream once `offset` bytes have passed
    kStall,    // from offset on nothing passes: the operation blocks until its limits or close() end it
    kCorrupt,  // the byte at offset is XORed with `amount`
  };
  enum class Direction { kRead, kWrite };
  Kind kind = Kind::kCut;
  Direction direction = Direction::kWrite;
  uint64_t offset = 0;  // bytes of that direction before the fault
  uint64_t amount = 1;
};

class FaultyStream final : public ByteStream {
 public:
  FaultyStream(std::unique_ptr<ByteStream> inner, std::vector<StreamFault> faults);

  Status read_exact(std::span<std::byte> out, const IoLimits& limits) override;
  Status write_all(std::span<const ConstBytes> parts, const IoLimits& limits) override;
  void close() override;

 private:
  struct Step {
    size_t bytes = 0;                  // how many may pass before the next look at the faults
    const StreamFault* now = nullptr;  // kCut or kStall that is due
  };
  Step next_step(StreamFault::Direction direction, uint64_t position, size_t wanted) const;
  Status fail(const StreamFault& fault, const IoLimits& limits);
  void corrupt(StreamFault::Direction direction, uint64_t position, std::span<std::byte> bytes) const;
  Status write_part(ConstBytes part, const IoLimits& limits);

  const std::unique_ptr<ByteStream> inner_;
  const std::vector<StreamFault> faults_;
  uint64_t read_position_ = 0;   // the reader's
  uint64_t write_position_ = 0;  // the writer's
  Mutex mutex_;
  CondVar closed_changed_;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace isthmus
