// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: the one error dialect of the project. A message says where, expected, got, in one
// line: "block_file: 31 layers, model has 32". Values, no ownership; any thread. Not for our own bugs: see
// ISTHMUS_CHECK.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace isthmus {

enum class Code {
  kOk,
  kInvalidArgument,    // the caller's value is wrong (client field, flag)
  kNotFound,           // no such model, file, transfer
  kCorrupt,            // bytes from disk or wire contradict themselves
  kUnsupported,        // well formed, but not something we can do (dtype, version, RoPE type)
  kMismatch,           // two sides disagree (identity, ids digest)
  kUnauthenticated,    // token or handshake wrong
  kResourceExhausted,  // memory, disk, queue or transfer limit
  kUnavailable,        // peer or engine not reachable, refused
  kDeadlineExceeded,
  kCancelled,  // the client or a peer gave up
  kIo,         // operating system error
  kInternal,
};

std::string_view code_name(Code code);  // "corrupt", "mismatch", ...

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string to_string() const;  // "corrupt: gguf: ..." or "ok"

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

[[noreturn]] inline void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  std::abort();
}

// For our own bugs only. Nothing that comes from a client, a peer, a disk or a model file may reach one.
#define ISTHMUS_CHECK(cond) ((cond) ? (void)0 : ::isthmus::check_failed(__FILE__, __LINE__, #cond))

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) { ISTHMUS_CHECK(!status_.ok()); }  // NOLINT
  Result(Code code, std::string message) : status_(code, std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }  // ok() when there is a value
  T& operator*() {
    ISTHMUS_CHECK(ok());
    return *value_;
  }
  const T& operator*() const {
    ISTHMUS_CHECK(ok());
    return *value_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  T take() {
    ISTHMUS_CHECK(ok());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

#define ISTHMUS_CONCAT_(a, b) a##b
#define ISTHMUS_CONCAT(a, b) ISTHMUS_CONCAT_(a, b)
// Returns the status from the calling function unless it is ok.
#define TRY(expr)                              \
  do {                                         \
    ::isthmus::Status try_status_ = (expr);    \
    if (!try_status_.ok()) return try_status_; \
  } while (0)
// ASSIGN_OR_RETURN(Blob blob, read_file(path));
#define ASSIGN_OR_RETURN(decl, expr) ASSIGN_OR_RETURN_(ISTHMUS_CONCAT(try_result_, __LINE__), decl, expr)
#define ASSIGN_OR_RETURN_(tmp, decl, expr) \
  auto tmp = (expr);                       \
  if (!tmp.ok()) return tmp.status();      \
  decl = tmp.take()

}  // namespace isthmus
