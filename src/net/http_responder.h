// SPDX-License-Identifier: Apache-2.0
// The reply side of one request on a server connection: heads, chunk framing, order of calls. Internal to
// net/. Made on the handler thread; its public calls may come from several threads (they are serialised).
#pragma once

#include <string>

#include "base/sync.h"
#include "net/http_server.h"

namespace isthmus {

class HttpSession;

class SessionResponder final : public HttpResponder {
 public:
  struct Facts {
    bool head_request = false;
    bool http_1_0 = false;
    bool keep_alive = true;
  };
  SessionResponder(HttpSession& session, Facts facts) : session_(session), facts_(facts) {}

  Status send(int status, std::string_view content_type, std::string_view body,
              const HttpHeaders& headers) override;
  Status begin_stream(int status, std::string_view content_type, const HttpHeaders& headers) override;
  Status write(std::string_view bytes) override;
  Status end() override;

  // After the handler: a 500 if it gave no reply. True if the connection can take another request.
  bool finish();

 private:
  enum class State { kNothing, kStreaming, kDone, kFailed };
  Result<std::string> head(int status, std::string_view content_type, const HttpHeaders& headers,
                           std::optional<size_t> length) REQUIRES(mutex_);
  Status flush(std::string head, std::string_view body, std::string_view tail) REQUIRES(mutex_);

  HttpSession& session_;
  Facts facts_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kNothing;
};

// A whole reply that closes the connection, for errors found below the handler.
std::string closing_reply(int status, std::string_view text);

}  // namespace isthmus
