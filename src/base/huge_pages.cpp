// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <memory>

#include "base/sync.h"

namespace isthmus {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;
// Parts of the arena, aligned to their size: a block's part is found from its address.
constexpr size_t kPart = size_t{32} << 20;
static_assert(kOwnMappingBytes < kPart);

size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// A mapping of `bytes` at a multiple of `alignment`, both whole huge pages.
void* map_aligned(size_t bytes, size_t alignment) {
  if (bytes > ~size_t{0} - alignment) return nullptr;
  void* const mapped =
      ::mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto from = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = (alignment - from % alignment) % alignment;
  auto* const start = static_cast<std::byte*>(mapped) + before;
  if (before > 0) ::munmap(mapped, before);
  ::munmap(start + bytes, alignment - before);
#ifdef MADV_HUGEPAGE
  (void)::madvise(start, bytes, MADV_HUGEPAGE);  // a wish: without it the memory is as good, only slower
#endif
  return start;
}

struct Part {
  size_t used = sizeof(Part);
  size_t blocks = 0;
};

class Arena {
 public:
  void* allocate(size_t bytes) {
    MutexLock lock(mutex_);
    size_t at = current_ != nullptr ? round_up(current_->used, kCacheLine) : 0;
    if (current_ == nullptr || bytes > kPart - at) {
      void* const memory = map_aligned(kPart, kPart);
      if (memory == nullptr) return nullptr;
      release_if_empty(current_);
      current_ = std::construct_at(static_cast<Part*>(memory));
      at = round_up(current_->used, kCacheLine);
    }
    current_->used = at + bytes;
    ++current_->blocks;
    return reinterpret_cast<std::byte*>(current_) + at;
  }

  void free(void* block) {
    MutexLock lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(block);
    Part* const part = reinterpret_cast<Part*>(static_cast<std::byte*>(block) - address % kPart);
    --part->blocks;
    if (part != current_) release_if_empty(part);
  }

 private:
  static void release_if_empty(Part* part) {
    if (part != nullptr && part->blocks == 0) ::munmap(part, kPart);
  }

  Mutex mutex_;
  Part* current_ GUARDED_BY(mutex_) = nullptr;
};

// Blocks of other statics may outlive it: its destructor gives nothing back.
Arena& arena() {
  static Arena instance;
  return instance;
}

}  // namespace

void* allocate_huge(size_t bytes) {
  if (bytes == 0) bytes = kCacheLine;
  if (bytes < kOwnMappingBytes) return arena().allocate(bytes);
  if (bytes > ~size_t{0} - kHugePage) return nullptr;
  return map_aligned(round_up(bytes, kHugePage), kHugePage);
}

void free_huge(void* block, size_t bytes) {
  if (block == nullptr) return;
  if (bytes < kOwnMappingBytes) return arena().free(block);
  ::munmap(block, round_up(bytes, kHugePage));
}

bool HugeBuffer::try_resize(size_t bytes) {
  data_.reset();
  data_.get_deleter().bytes = 0;
  auto* const block = static_cast<std::byte*>(allocate_huge(bytes));
  if (block == nullptr) return false;
  data_ = {block, FreeHuge{bytes}};
  return true;
}

}  // namespace isthmus
