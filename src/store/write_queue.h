// SPDX-License-Identifier: Apache-2.0
// Blocks on their way to the disk writer, bounded by bytes: a slow disk costs durability, never memory. Any
// thread pushes; one thread pops.
#pragma once

#include <cstdint>
#include <deque>

#include "base/sync.h"
#include "flow/block.h"

namespace isthmus {

class WriteQueue {
 public:
  explicit WriteQueue(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // False when the bound is reached (one block always fits into an empty queue) or the queue is closed.
  bool push(BlockPtr block);
  // Blocks; null when closed and empty. The block counts as queued until done().
  BlockPtr pop();
  void done();
  void wait_idle();  // until everything pushed is done
  void close();      // pops what is left, then null
  uint64_t bytes() const;

 private:
  const uint64_t max_bytes_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<BlockPtr> blocks_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;    // of blocks_ and the popped one
  uint64_t in_work_ GUARDED_BY(mutex_) = 0;  // of the popped one
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace isthmus
