// SPDX-License-Identifier: Apache-2.0
// The server side of one event stream with a heartbeat by the wall clock: whatever blocks the request's own
// thread, the client sees a comment every keep_alive. One object per request; calls come from the request's
// thread, the heartbeat has a thread of its own, so that one client that takes no bytes delays no other's.
// The destructor joins it. Knows no JSON.
#pragma once

#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "base/sync.h"
#include "net/http_server.h"

namespace isthmus {

struct SseTimes {
  Millis keep_alive{10'000};
  Millis open_after{250};  // an error that comes sooner still gets its own HTTP status
};

class SseStream {
 public:
  SseStream(HttpResponder& responder, SseTimes times) : responder_(responder), times_(times) {}
  ~SseStream();

  // Sets what the stream begins with; it opens with the first write(), or by itself after open_after.
  void arm(HttpHeaders headers, std::string first_frames);
  // The same, at once. Errors: of HttpResponder.
  Status open(HttpHeaders headers, std::string first_frames);
  // Whole frames. Opens an armed stream first. Errors: of HttpResponder.
  Status write(std::string_view frames);
  // The last bytes of the body.
  Status end();
  // True: nothing was sent, and this object sends nothing any more, so that another reply may be.
  bool abandon();

 private:
  Status open_locked() REQUIRES(mutex_);
  Status send_locked(std::string_view frames) REQUIRES(mutex_);
  void start_heartbeat() REQUIRES(mutex_);
  void beat();

  HttpResponder& responder_;
  const SseTimes times_;
  Mutex mutex_;
  CondVar changed_;
  HttpHeaders headers_ GUARDED_BY(mutex_);
  std::string first_frames_ GUARDED_BY(mutex_);
  bool opened_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
  MonotonicTime last_ GUARDED_BY(mutex_);  // armed, or something was written
  std::thread heartbeat_;                  // started and joined by the request's thread
};

}  // namespace isthmus
