// SPDX-License-Identifier: Apache-2.0
// Recordings: each transfer's frames, as its sender wrote them, in one file TRANSFER.ish. Never the
// handshake. A file appears under its name when its connection ends. The folder is bounded: a transfer that
// might exceed the limit is not recorded, and never fails because of its recording. One process owns the
// folder. Any thread; outlives the streams it made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/sync.h"
#include "flow/transfer.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

class Recorder {
 public:
  // Creates the folder. `max_bytes`: of all its recordings, those from earlier runs included.
  static Result<std::unique_ptr<Recorder>> create(std::filesystem::path folder, uint64_t max_bytes);

  // `stream` has passed the handshake; the result passes everything on. `stream` itself when it is not
  // recorded.
  std::unique_ptr<ByteStream> record(std::unique_ptr<ByteStream> stream, const TransferSpec& spec)
      EXCLUDES(mutex_);

 private:
  class Stream;
  Recorder(std::filesystem::path folder, uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  Status reserve(uint64_t bytes) EXCLUDES(mutex_);
  void give_back(uint64_t bytes) EXCLUDES(mutex_);

  const std::filesystem::path folder_;
  const uint64_t max_bytes_;
  Mutex mutex_;
  uint64_t reserved_ GUARDED_BY(mutex_) = 0;  // files, and what running transfers may still need
};

}  // namespace isthmus::handoff
