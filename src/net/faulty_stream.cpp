// SPDX-License-Identifier: Apache-2.0
#include "net/faulty_stream.h"

#include <algorithm>
#include <utility>

namespace isthmus {

FaultyStream::FaultyStream(std::unique_ptr<ByteStream> inner, std::vector<StreamFault> faults)
    : inner_(std::move(inner)), faults_(std::move(faults)) {}

FaultyStream::Step FaultyStream::next_step(StreamFault::Direction direction, uint64_t position,
                                           size_t wanted) const {
  Step step{wanted, nullptr};
  for (const StreamFault& fault : faults_) {
    if (fault.direction != direction || fault.kind == StreamFault::Kind::kCorrupt) continue;
    if (fault.offset > position) {
      step.bytes = static_cast<size_t>(std::min<uint64_t>(step.bytes, fault.offset - position));
    } else if (fault.kind == StreamFault::Kind::kShort) {
      step.bytes = static_cast<size_t>(std::min<uint64_t>(step.bytes, std::max<uint64_t>(fault.amount, 1)));
    } else if (step.now == nullptr) {
      step.now = &fault;
    }
  }
  return step;
}

Status FaultyStream::fail(const StreamFault& fault, const IoLimits& limits) {
  if (fault.kind == StreamFault::Kind::kCut) {
    close();
    return Status(Code::kUnavailable, "faulty_stream: cut at byte " + std::to_string(fault.offset));
  }
  const std::stop_callback on_stop(limits.stop, [this] {
    const MutexLock lock(mutex_);
    closed_changed_.notify_all();
  });
  const auto deadline = limits.end_of_wait();
  const MutexLock lock(mutex_);
  while (!closed_ && !limits.stop.stop_requested()) {
    if (deadline == std::chrono::steady_clock::time_point::max()) {
      closed_changed_.wait(mutex_);
    } else if (!closed_changed_.wait_until(mutex_, deadline)) {
      return Status(Code::kDeadlineExceeded,
                    "faulty_stream: stalled at byte " + std::to_string(fault.offset));
    }
  }
  return Status(Code::kCancelled, "faulty_stream: stalled at byte " + std::to_string(fault.offset));
}

void FaultyStream::corrupt(StreamFault::Direction direction, uint64_t position,
                           std::span<std::byte> bytes) const {
  for (const StreamFault& fault : faults_) {
    if (fault.kind != StreamFault::Kind::kCorrupt || fault.direction != direction) continue;
    if (fault.offset < position || fault.offset - position >= bytes.size()) continue;
    bytes[static_cast<size_t>(fault.offset - position)] ^= static_cast<std::byte>(fault.amount);
  }
}

Status FaultyStream::read_exact(std::span<std::byte> out, const IoLimits& limits) {
  while (!out.empty()) {
    const Step step = next_step(StreamFault::Direction::kRead, read_position_, out.size());
    if (step.now != nullptr) return fail(*step.now, limits);
    TRY(inner_->read_exact(out.first(step.bytes), limits));
    corrupt(StreamFault::Direction::kRead, read_position_, out.first(step.bytes));
    read_position_ += step.bytes;
    out = out.subspan(step.bytes);
  }
  return Status();
}

Status FaultyStream::write_part(ConstBytes part, const IoLimits& limits) {
  while (!part.empty()) {
    const Step step = next_step(StreamFault::Direction::kWrite, write_position_, part.size());
    if (step.now != nullptr) return fail(*step.now, limits);
    std::vector<std::byte> piece(part.begin(), part.begin() + static_cast<ptrdiff_t>(step.bytes));
    corrupt(StreamFault::Direction::kWrite, write_position_, piece);
    const ConstBytes view(piece);
    TRY(inner_->write_all({&view, 1}, limits));
    write_position_ += step.bytes;
    part = part.subspan(step.bytes);
  }
  return Status();
}

Status FaultyStream::write_all(std::span<const ConstBytes> parts, const IoLimits& limits) {
  for (const ConstBytes part : parts) TRY(write_part(part, limits));
  return Status();
}

void FaultyStream::close() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    closed_changed_.notify_all();
  }
  inner_->close();
}

}  // namespace isthmus
