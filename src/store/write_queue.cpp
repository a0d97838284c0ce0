// SPDX-License-Identifier: Apache-2.0
#include "store/write_queue.h"

#include <utility>

#include "store/ram_tier.h"

namespace isthmus {

bool WriteQueue::push(BlockPtr block) {
  const uint64_t size = block_memory_bytes(*block);
  MutexLock lock(mutex_);
  if (closed_ || (bytes_ > 0 && bytes_ + size > max_bytes_)) return false;
  bytes_ += size;
  blocks_.push_back(std::move(block));
  changed_.notify_all();
  return true;
}

BlockPtr WriteQueue::pop() {
  MutexLock lock(mutex_);
  while (blocks_.empty() && !closed_) changed_.wait(mutex_);
  if (blocks_.empty()) return nullptr;
  BlockPtr block = std::move(blocks_.front());
  blocks_.pop_front();
  in_work_ = block_memory_bytes(*block);
  return block;
}

void WriteQueue::done() {
  MutexLock lock(mutex_);
  bytes_ -= in_work_;
  in_work_ = 0;
  changed_.notify_all();
}

void WriteQueue::wait_idle() {
  MutexLock lock(mutex_);
  while (bytes_ > 0) changed_.wait(mutex_);
}

void WriteQueue::close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

uint64_t WriteQueue::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace isthmus
