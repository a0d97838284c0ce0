// SPDX-License-Identifier: Apache-2.0
// Uninitialized memory for plain values, aligned to a cache line and released with its owner. Movable, not
// copyable; any thread. Contents are lost on resize. Large buffers lie in huge pages and are committed by the
// system as they are touched.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/huge_pages.h"
#include "base/status.h"

namespace isthmus {

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t count) { ISTHMUS_CHECK(try_resize(count)); }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  // False when the system has no memory; the buffer is empty then.
  [[nodiscard]] bool try_resize(size_t count) {
    data_.reset();
    size_ = 0;
    if (count > (~size_t{0} - kAlign) / sizeof(T)) return false;
    const size_t bytes = (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    const bool large = bytes >= kLargeBytes;
    void* const block =
        large ? allocate_huge(bytes) : std::aligned_alloc(kAlign, bytes == 0 ? kAlign : bytes);
    if (block == nullptr) return false;
    data_ = {static_cast<T*>(block), Free{large ? bytes : 0}};
    size_ = count;
    return true;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kAlign = 64;
  // A mapping of its own: buffers come and go, which an arena is not made for.
  static constexpr size_t kLargeBytes = kOwnMappingBytes;
  struct Free {
    size_t huge_bytes = 0;  // 0: from the heap
    void operator()(T* p) const { huge_bytes > 0 ? free_huge(p, huge_bytes) : std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace isthmus
