// SPDX-License-Identifier: Apache-2.0
#include "front/sse_stream.h"

#include <utility>

namespace isthmus {

SseStream::~SseStream() {
  {
    const MutexLock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  if (heartbeat_.joinable()) heartbeat_.join();
}

void SseStream::arm(HttpHeaders headers, std::string first_frames) {
  const MutexLock lock(mutex_);
  headers_ = std::move(headers);
  first_frames_ = std::move(first_frames);
  start_heartbeat();
}

Status SseStream::open(HttpHeaders headers, std::string first_frames) {
  const MutexLock lock(mutex_);
  headers_ = std::move(headers);
  first_frames_ = std::move(first_frames);
  start_heartbeat();
  return open_locked();
}

Status SseStream::write(std::string_view frames) {
  const MutexLock lock(mutex_);
  TRY(open_locked());
  return send_locked(frames);
}

Status SseStream::end() {
  const MutexLock lock(mutex_);
  TRY(open_locked());
  done_ = true;
  changed_.notify_all();
  return responder_.end();
}

bool SseStream::abandon() {
  const MutexLock lock(mutex_);
  if (opened_) return false;
  done_ = true;
  changed_.notify_all();
  return true;
}

Status SseStream::open_locked() {
  if (opened_) return Status();
  opened_ = true;
  HttpHeaders headers = headers_;
  headers.add("Cache-Control", "no-cache");
  TRY(responder_.begin_stream(200, "text/event-stream", headers));
  return send_locked(first_frames_);
}

Status SseStream::send_locked(std::string_view frames) {
  Status sent = responder_.write(frames);
  last_ = std::chrono::steady_clock::now();
  return sent;
}

void SseStream::start_heartbeat() {
  last_ = std::chrono::steady_clock::now();
  if (!heartbeat_.joinable()) heartbeat_ = std::thread([this] { beat(); });
}

void SseStream::beat() {
  const MutexLock lock(mutex_);
  while (!done_) {
    const MonotonicTime due = last_ + (opened_ ? times_.keep_alive : times_.open_after);
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(mutex_, due);
      continue;
    }
    const Status sent = opened_ ? send_locked(": keep-alive\n\n") : open_locked();
    if (!sent.ok()) return;  // the client is gone; the request's thread notices by itself
  }
}

}  // namespace isthmus
