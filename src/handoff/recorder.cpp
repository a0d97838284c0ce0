// SPDX-License-Identifier: Apache-2.0
#include "handoff/recorder.h"

#include <optional>

#include "base/fs.h"
#include "base/log.h"
#include "handoff/frame_format.h"
#include "handoff/open_message.h"
#include "handoff/rows_payload.h"

namespace isthmus::handoff {

namespace stdfs = std::filesystem;

// One frame is one write_all: the file holds whole frames, those that left.
class Recorder::Stream final : public ByteStream {
 public:
  Stream(Recorder& owner, std::unique_ptr<ByteStream> inner, NewFile file, std::string name,
         uint64_t reserved)
      : owner_(owner),
        inner_(std::move(inner)),
        file_(std::move(file)),
        name_(std::move(name)),
        reserved_(reserved) {}
  ~Stream() override {
    if (file_) note(file_->finish());
    owner_.give_back(reserved_ - (file_ ? written_ : 0));
  }

  Status read_exact(std::span<std::byte> out, const IoLimits& limits) override {
    return inner_->read_exact(out, limits);
  }
  Status write_all(std::span<const ConstBytes> parts, const IoLimits& limits) override {
    TRY(inner_->write_all(parts, limits));
    for (const ConstBytes& part : parts) {
      if (file_) note(file_->append(part));
      written_ += part.size();
    }
    return {};
  }
  void close() override { inner_->close(); }

 private:
  void note(const Status& written) {
    if (written.ok()) return;
    log_warn("handoff: transfer {} is not recorded: {}", name_, written.to_string());
    file_.reset();  // removes what was written
  }

  Recorder& owner_;
  const std::unique_ptr<ByteStream> inner_;
  std::optional<NewFile> file_;  // the writer's, then the destructor's
  const std::string name_;
  const uint64_t reserved_;
  uint64_t written_ = 0;
};

namespace {

// More than the frames of a transfer take beside their planes: an OPEN, pings, and per block heads and JSON.
uint64_t frames_limit(const TransferSpec& spec) {
  const int64_t blocks = (spec.last - spec.first) / spec.layout.block_tokens + 2;
  return total_plane_bytes(spec) + 2 * kMaxJsonBytes +
         static_cast<uint64_t>(blocks) * (payload_head_limit(spec.layout) + 1024);
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::create(stdfs::path folder, uint64_t max_bytes) {
  TRY(make_directories(folder));
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(folder), max_bytes));
  std::error_code error;
  for (stdfs::directory_iterator it(recorder->folder_, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const std::string name = it->path().filename().string();
    if (name.ends_with(std::string(kRecordingExtension) + ".tmp")) {  // of a process that died
      stdfs::remove(it->path(), gone);
      continue;
    }
    const uint64_t bytes = it->file_size(gone);
    MutexLock lock(recorder->mutex_);
    if (!gone && it->path().extension() == kRecordingExtension) recorder->reserved_ += bytes;
  }
  if (error) return Status(Code::kIo, recorder->folder_.string() + ": " + error.message());
  return recorder;
}

Status Recorder::reserve(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (bytes > max_bytes_ || reserved_ > max_bytes_ - bytes) {
    return {Code::kResourceExhausted, "recordings: " + std::to_string(reserved_ >> 20) + " MiB used, " +
                                          std::to_string(bytes >> 20) + " MiB more wanted, limit " +
                                          std::to_string(max_bytes_ >> 20) + " MiB"};
  }
  reserved_ += bytes;
  return {};
}

void Recorder::give_back(uint64_t bytes) {
  MutexLock lock(mutex_);
  reserved_ -= bytes;
}

std::unique_ptr<ByteStream> Recorder::record(std::unique_ptr<ByteStream> stream, const TransferSpec& spec) {
  const uint64_t most = frames_limit(spec);
  const Status room = reserve(most);
  auto file = room.ok() ? NewFile::create(folder_ / (spec.id + std::string(kRecordingExtension)))
                        : Result<NewFile>(room);
  if (!file.ok()) {
    if (room.ok()) give_back(most);
    log_warn("handoff: transfer {} is not recorded: {}", spec.id, file.status().to_string());
    return stream;
  }
  return std::make_unique<Stream>(*this, std::move(stream), file.take(), spec.id, most);
}

}  // namespace isthmus::handoff
