// SPDX-License-Identifier: Apache-2.0
#include "handoff/recorder.h"

#include <optional>

#include "base/fs.h"
#include "base/log.h"
#include "handoff/frame_format.h"
#include "handoff/open_message.h"
#include "handoff/rows_payload.h"

namespace isthmus::handoff {
namespace {

namespace stdfs = std::filesystem;

// One frame is one write_all: the file holds whole frames, those that left.
class RecordingStream final : public ByteStream {
 public:
  RecordingStream(std::unique_ptr<ByteStream> inner, NewFile file, std::string name)
      : inner_(std::move(inner)), file_(std::move(file)), name_(std::move(name)) {}
  ~RecordingStream() override {
    if (file_) note(file_->finish());
  }

  Status read_exact(std::span<std::byte> out, const IoLimits& limits) override {
    return inner_->read_exact(out, limits);
  }
  Status write_all(std::span<const ConstBytes> parts, const IoLimits& limits) override {
    TRY(inner_->write_all(parts, limits));
    for (const ConstBytes& part : parts) {
      if (file_) note(file_->append(part));
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

  const std::unique_ptr<ByteStream> inner_;
  std::optional<NewFile> file_;  // the writer's, then the destructor's
  const std::string name_;
};

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
    std::error_code ignored;
    if (it->path().extension() != kRecordingExtension) continue;
    MutexLock lock(recorder->mutex_);
    recorder->reserved_ += it->file_size(ignored);
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

std::unique_ptr<ByteStream> Recorder::record(std::unique_ptr<ByteStream> stream, const TransferSpec& spec) {
  const Status room = reserve(frames_limit(spec));
  auto file = room.ok() ? NewFile::create(folder_ / (spec.id + std::string(kRecordingExtension)))
                        : Result<NewFile>(room);
  if (!file.ok()) {
    log_warn("handoff: transfer {} is not recorded: {}", spec.id, file.status().to_string());
    return stream;
  }
  return std::make_unique<RecordingStream>(std::move(stream), file.take(), spec.id);
}

}  // namespace isthmus::handoff
