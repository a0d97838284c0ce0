// SPDX-License-Identifier: Apache-2.0
// Scratch memory of kernels: cache-line aligned, grows and never shrinks, contents undefined after growing.
// Owned by one call at a time (usually thread_local to the calling thread and lent to its team). Not a
// container.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/status.h"

namespace isthmus::kernels {

template <typename T>
class AlignedBuffer {
 public:
  T* ensure(size_t count) {
    if (count > capacity_) {
      constexpr size_t kAlign = 64;
      const size_t bytes = (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
      data_.reset();
      data_.reset(static_cast<T*>(std::aligned_alloc(kAlign, bytes)));
      ISTHMUS_CHECK(data_ != nullptr);
      capacity_ = count;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t capacity_ = 0;
};

}  // namespace isthmus::kernels
