// SPDX-License-Identifier: Apache-2.0
// The write queue and the deadlines of a connection; its request cycle is in http_session.cpp.
#include <algorithm>

#include "net/http_session.h"

namespace isthmus {
namespace {

namespace asio = boost::asio;
constexpr auto kNever = std::chrono::steady_clock::time_point::max();

std::chrono::steady_clock::time_point after_ms(int64_t ms) {
  return ms < 0 ? kNever : std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

}  // namespace

void HttpSession::enqueue(Write write) {
  if (state_ == State::kClosed) return write.done(Status(Code::kCancelled, "http reply: the client is gone"));
  writes_.push_back(std::move(write));
  if (!write_pending_) write_more();
}

void HttpSession::write_more() {
  while (!writes_.empty()) {
    const Write& front = writes_.front();
    size_t skip = written_;
    for (const std::string_view part : {std::string_view(front.head), front.body, front.tail}) {
      if (skip >= part.size()) {
        skip -= part.size();
        continue;
      }
      if (state_ == State::kClosed)
        return finish_writes(Status(Code::kCancelled, "http reply: the client is gone"));
      write_pending_ = true;
      set_write_deadline(context_.stopping ? context_.options.stop_grace_ms
                                           : context_.options.write_timeout_ms);
      const std::string_view rest = part.substr(skip);
      stream_.write_some(
          asio::buffer(rest.data(), rest.size()),
          [self = shared_from_this()](const ErrorCode& ec, size_t bytes) { self->on_written(ec, bytes); });
      return;
    }
    const auto done = std::move(writes_.front().done);
    writes_.pop_front();
    written_ = 0;
    done(Status());
    if (write_pending_) return;  // done() queued another one
  }
  write_deadline_ = kNever;
}

void HttpSession::on_written(const ErrorCode& ec, size_t bytes) {
  write_pending_ = false;
  written_ += bytes;
  if (!ec) return write_more();  // closed or not: a client may leave as soon as it has the last byte
  const Status status = write_timed_out_
                            ? Status(Code::kDeadlineExceeded, "http reply: the client takes no bytes")
                            : Status(Code::kCancelled, "http reply: the client is gone");
  finish_writes(status);
  close();
}

void HttpSession::finish_writes(const Status& status) {
  std::deque<Write> writes;
  writes.swap(writes_);
  for (const Write& write : writes) write.done(status);
}

void HttpSession::set_read_deadline(int64_t ms) {
  read_deadline_ = after_ms(ms);
  arm_timer();
}

void HttpSession::set_write_deadline(int64_t ms) {
  write_deadline_ = after_ms(ms);
  arm_timer();
}

// One timer serves both deadlines and is only ever moved forward, so that a stream of small writes, each with
// a later deadline, touches no timer queue: it wakes up early at most and looks again.
void HttpSession::arm_timer() {
  const auto next = std::min(read_deadline_, write_deadline_);
  if (next >= timer_at_ || state_ == State::kClosed) return;
  timer_at_ = next;
  timer_.expires_at(next);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
    if (!ec) self->on_timer();
  });
}

void HttpSession::on_timer() {
  if (state_ == State::kClosed) return;
  timer_at_ = kNever;
  const auto now = Clock::now();
  if (now >= write_deadline_) {
    write_timed_out_ = true;
    return close();
  }
  if (now < read_deadline_) return arm_timer();
  read_deadline_ = kNever;
  // A client that is in the middle of a request is told; an idle one is not.
  if (state_ == State::kReading && (header_seen_ || !input_.empty()))
    return fail_request(408, "request timeout");
  close();
}

}  // namespace isthmus
