// SPDX-License-Identifier: Apache-2.0
// Memory for what every token reads in full: weights and caches. It lies in pages of 2 MiB where the system
// grants them, so that reading it costs no page walks (measured: a quarter of the time of a decode step's
// weights). Committed as it is touched. Not for short-lived buffers: small blocks share an arena whose parts
// are given back only when the last block of a part is freed. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace isthmus {

// From this size on a block has a mapping of its own, which goes when it is freed.
inline constexpr size_t kOwnMappingBytes = size_t{8} << 20;

// 64-byte aligned and zero: no block's memory is handed out a second time. Null when the system has none.
[[nodiscard]] void* allocate_huge(size_t bytes);
void free_huge(void* block, size_t bytes);  // `bytes` as allocated

struct FreeHuge {
  size_t bytes = 0;
  void operator()(std::byte* p) const { free_huge(p, bytes); }
};

// Bytes with an owner, zero at first. Movable, not copyable.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept : data_(std::move(other.data_)) {
    other.data_.get_deleter().bytes = 0;
  }
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    data_ = std::move(other.data_);
    other.data_.get_deleter().bytes = 0;
    return *this;
  }

  // False when the system has no memory; the buffer is empty then. Contents are lost.
  [[nodiscard]] bool try_resize(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return data_.get_deleter().bytes; }

 private:
  std::unique_ptr<std::byte, FreeHuge> data_;
};

}  // namespace isthmus
