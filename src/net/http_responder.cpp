// SPDX-License-Identifier: Apache-2.0
#include "net/http_responder.h"

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "net/http_session.h"

namespace isthmus {
namespace {

// Up to here a chunk is copied behind its length, so that it leaves in one segment.
constexpr size_t kCopiedChunkBytes = 64 << 10;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char rest[32];
  std::strftime(rest, sizeof rest, " %Y %H:%M:%S GMT", &parts);
  char day[8];
  std::strftime(day, sizeof day, ", %d ", &parts);
  return std::string(kDays[static_cast<size_t>(parts.tm_wday)]) + day +
         kMonths[static_cast<size_t>(parts.tm_mon)] + rest;
}

std::string status_line(int status) {
  return "HTTP/1.1 " + std::to_string(status) + " " + std::string(http_reason(status)) +
         "\r\nDate: " + http_date() + "\r\n";
}

bool has_no_body(int status) {
  return status == 204 || status == 304;
}

// How the client finds the end of the body. length: absent in streams.
void add_framing(SessionResponder::Facts& facts, std::optional<size_t> length, HttpHeaders& out) {
  if (length) {
    out.add("Content-Length", std::to_string(*length));
  } else if (facts.http_1_0) {
    facts.keep_alive = false;  // the end of the connection is the only end such a client understands
  } else {
    out.add("Transfer-Encoding", "chunked");
  }
}

std::string hex(size_t value) {
  std::array<char, 16> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, 16);
  return std::string(text.data(), end);
}

struct ErrorRow {
  int http_status;
  const char* type;
  Code code;
};

constexpr std::array<ErrorRow, 5> kErrors = {{
    {408, "invalid_request_error", Code::kDeadlineExceeded},
    {413, "invalid_request_error", Code::kResourceExhausted},
    {431, "invalid_request_error", Code::kResourceExhausted},
    {500, "server_error", Code::kInternal},
    {503, "unavailable_error", Code::kUnavailable},
}};

// The form in which clients of the API expect errors, also of those that no handler saw.
std::string error_body(int http_status, std::string_view text) {
  ErrorRow row{http_status, "invalid_request_error", Code::kInvalidArgument};
  for (const ErrorRow& known : kErrors) {
    if (known.http_status == http_status) row = known;
  }
  Json j;
  j["error"] = {{"message", text}, {"type", row.type}, {"param", nullptr}, {"code", code_name(row.code)}};
  return dump_ascii(j) + "\n";
}

}  // namespace

std::string closing_reply(int status, std::string_view text) {
  const std::string body = error_body(status, text);
  return status_line(status) + "Content-Type: application/json\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

Result<std::string> SessionResponder::head(int status, std::string_view content_type,
                                           const HttpHeaders& headers, std::optional<size_t> length) {
  if (state_ != State::kNothing) {
    return Status(Code::kInternal, "http reply: expected one reply, got another");
  }
  if (status < 200 || status > 599) {
    return Status(Code::kInvalidArgument, "http reply: expected a status of 200 to 599");
  }
  HttpHeaders all;
  if (!content_type.empty()) all.add("Content-Type", std::string(content_type));
  if (!has_no_body(status)) add_framing(facts_, length, all);
  if (!facts_.keep_alive) {
    all.add("Connection", "close");
  } else if (facts_.http_1_0) {
    all.add("Connection", "keep-alive");
  }
  for (const auto& [name, value] : headers.all()) all.add(name, value);
  TRY(all.validate());
  std::string out = status_line(status);
  for (const auto& [name, value] : all.all()) out += name + ": " + value + "\r\n";
  return out + "\r\n";
}

Status SessionResponder::flush(std::string head, std::string_view body, std::string_view tail) {
  if (body.size() <= kCopiedChunkBytes) {
    head.append(body).append(tail);
    body = tail = {};
  }
  Status status = session_.write_and_wait(std::move(head), body, tail);
  if (!status.ok()) state_ = State::kFailed;
  return status;
}

Status SessionResponder::send(int status, std::string_view content_type, std::string_view body,
                              const HttpHeaders& headers) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(std::string text, head(status, content_type, headers, body.size()));
  state_ = State::kDone;
  if (facts_.head_request || has_no_body(status)) body = {};
  return flush(std::move(text), body, {});
}

Status SessionResponder::begin_stream(int status, std::string_view content_type, const HttpHeaders& headers) {
  const MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(std::string text, head(status, content_type, headers, std::nullopt));
  if (has_no_body(status)) facts_.head_request = true;
  state_ = State::kStreaming;
  return flush(std::move(text), {}, {});
}

Status SessionResponder::write(std::string_view bytes) {
  const MutexLock lock(mutex_);
  if (state_ == State::kFailed) return Status(Code::kCancelled, "http reply: the connection is gone");
  if (state_ != State::kStreaming)
    return Status(Code::kInternal, "http reply: expected begin_stream before write");
  if (bytes.empty() || facts_.head_request) return Status();  // an empty chunk would end the body
  if (facts_.http_1_0) return flush({}, bytes, {});
  return flush(hex(bytes.size()) + "\r\n", bytes, "\r\n");
}

Status SessionResponder::end() {
  const MutexLock lock(mutex_);
  if (state_ == State::kFailed) return Status(Code::kCancelled, "http reply: the connection is gone");
  if (state_ != State::kStreaming)
    return Status(Code::kInternal, "http reply: expected begin_stream before end");
  state_ = State::kDone;
  if (facts_.head_request || facts_.http_1_0) return Status();
  return flush("0\r\n\r\n", {}, {});
}

bool SessionResponder::finish() {
  bool silent = false;
  {
    const MutexLock lock(mutex_);
    silent = state_ == State::kNothing;
  }
  if (silent) {
    facts_.keep_alive = false;
    // Whether it arrives decides nothing: the connection closes either way.
    [[maybe_unused]] const Status ignored =
        send(500, "application/json", error_body(500, "the handler gave no reply"), {});
  }
  const MutexLock lock(mutex_);
  return state_ == State::kDone && facts_.keep_alive;
}

}  // namespace isthmus
