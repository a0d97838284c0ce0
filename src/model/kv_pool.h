// SPDX-License-Identifier: Apache-2.0
// Paged KV cache: one allocation, cut into pages of 64 tokens, and the sequences that hold pages. The engine
// thread owns both; no other thread may call. A page is, for each layer, K [Hk, 64, D] then V [Hk, 64, D] in
// the cache dtype; K after RoPE. Full pages can be shared by sequences (refcounts; a shared page is copied
// before a row of it is rewritten). Not a prefix cache: finding blocks by content is the store's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "kernels/attention.h"

namespace isthmus {

using kernels::kPageTokens;

struct KvShape {
  int layers = 0;
  int kv_heads = 0;            // Hk
  int head_dim = 0;            // D
  DType dtype = DType::kBF16;  // kBF16, or kF32 in reference arithmetic

  // Bytes of one token's K (or V) in one layer: Hk * D values.
  size_t plane_row_bytes() const { return row_bytes(dtype, int64_t{kv_heads} * head_dim); }
  size_t layer_page_bytes() const { return 2 * kPageTokens * plane_row_bytes(); }
};

class KvPool {
 public:
  // Holds at least `tokens` tokens. Memory is committed as pages are first written. Errors:
  // kResourceExhausted.
  static Result<KvPool> create(const KvShape& shape, int64_t tokens);

  const KvShape& shape() const { return shape_; }
  int pages() const { return static_cast<int>(refs_.size()); }
  int free_pages() const { return static_cast<int>(free_.size()); }

 private:
  friend class Sequence;
  KvPool() = default;

  std::byte* layer_base(int layer) {
    return memory_.data() + static_cast<size_t>(layer) * refs_.size() * shape_.layer_page_bytes();
  }
  int32_t acquire();  // free_pages() > 0
  void release(int32_t page);
  void copy_page(int32_t from, int32_t to);

  KvShape shape_;
  AlignedBuffer<std::byte> memory_;  // [layers][pages][layer_page_bytes]
  std::vector<int32_t> refs_;        // per page
  std::vector<int32_t> free_;
};

enum class KvPlane { kKeys, kValues };

// One timeline of tokens. Movable; gives its pages back when destroyed. The pool must outlive it and must not
// move meanwhile.
class Sequence {
 public:
  explicit Sequence(KvPool& pool) : pool_(&pool) {}
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  int64_t length() const { return length_; }  // tokens whose rows are in the cache
  KvPool& pool() const { return *pool_; }

  // Makes room for `n` tokens after length(). Errors: kResourceExhausted, and then nothing has changed.
  Status reserve(int64_t n);
  // The next `n` rows, reserved before and written in every layer, now count.
  void advance(int64_t n);
  // Forgets the tokens from `length` on and frees whole pages. 0 <= length <= length().
  void truncate(int64_t length);
  // An empty sequence takes the first `tokens` rows of `donor` without copying. tokens: a multiple of 64, <=
  // donor.length().
  void share_prefix(const Sequence& donor, int64_t tokens);

  // Valid until the next reserve, truncate or move.
  kernels::KvLayerView view(int layer) const;

  // Plane rows: token-major [n, Hk * D] in the cache dtype, contiguous: what blocks and the wire carry. Rows
  // [first, first + n) must be reserved; bytes.size() == n * plane_row_bytes().
  void read_rows(int layer, KvPlane plane, int64_t first, int64_t n, std::span<std::byte> bytes) const;
  void write_rows(int layer, KvPlane plane, int64_t first, int64_t n, std::span<const std::byte> bytes);

 private:
  std::byte* head_run(int layer, KvPlane plane,
                      int64_t position) const;  // head 0's D values of this position

  KvPool* pool_;
  std::vector<int32_t> table_;  // pages, in order of position
  int64_t length_ = 0;
};

}  // namespace isthmus
