// SPDX-License-Identifier: Apache-2.0
#include "model/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace isthmus {
namespace {

int64_t pages_for(int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace

Result<KvPool> KvPool::create(const KvShape& shape, int64_t tokens) {
  ISTHMUS_CHECK(shape.layers > 0 && shape.kv_heads > 0 && shape.head_dim > 0 && tokens > 0);
  const int64_t pages = pages_for(tokens);
  const size_t page_bytes = shape.layer_page_bytes() * static_cast<size_t>(shape.layers);
  KvPool pool;
  pool.shape_ = shape;
  if (pages > std::numeric_limits<int32_t>::max() ||
      static_cast<size_t>(pages) > std::numeric_limits<size_t>::max() / page_bytes ||
      !pool.memory_.try_resize(static_cast<size_t>(pages) * page_bytes)) {
    return Status(Code::kResourceExhausted, "kv_pool: no memory for " + std::to_string(tokens) +
                                                " tokens of " + std::to_string(page_bytes / kPageTokens) +
                                                " bytes");
  }
  pool.refs_.assign(static_cast<size_t>(pages), 0);
  pool.free_.reserve(static_cast<size_t>(pages));
  // Taken from the back: low pages first, so that a small load touches little memory.
  for (int64_t p = pages; p-- > 0;) pool.free_.push_back(static_cast<int32_t>(p));
  return pool;
}

int32_t KvPool::acquire() {
  ISTHMUS_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  refs_[static_cast<size_t>(page)] = 1;
  return page;
}

void KvPool::release(int32_t page) {
  int32_t& refs = refs_[static_cast<size_t>(page)];
  ISTHMUS_CHECK(refs > 0);
  if (--refs == 0) free_.push_back(page);
}

void KvPool::copy_page(int32_t from, int32_t to) {
  const size_t bytes = shape_.layer_page_bytes();
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::byte* base = layer_base(layer);
    std::memcpy(base + static_cast<size_t>(to) * bytes, base + static_cast<size_t>(from) * bytes, bytes);
  }
}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_), table_(std::exchange(other.table_, {})), length_(std::exchange(other.length_, 0)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this != &other) {
    truncate(0);
    pool_ = other.pool_;
    table_ = std::exchange(other.table_, {});
    length_ = std::exchange(other.length_, 0);
  }
  return *this;
}

Sequence::~Sequence() {
  truncate(0);
}

Status Sequence::reserve(int64_t n) {
  ISTHMUS_CHECK(n >= 0);
  const int64_t have = static_cast<int64_t>(table_.size());
  const int64_t fresh = std::max<int64_t>(0, pages_for(length_ + n) - have);
  // The first page to be written may be shared and partly filled (after a truncate): it is copied first.
  const size_t partial = static_cast<size_t>(length_ / kPageTokens);
  const bool copy =
      n > 0 && partial < table_.size() && pool_->refs_[static_cast<size_t>(table_[partial])] > 1;
  if (fresh + (copy ? 1 : 0) > pool_->free_pages()) {
    return Status(Code::kResourceExhausted, "kv_pool: " + std::to_string(fresh + (copy ? 1 : 0)) +
                                                " pages needed, " + std::to_string(pool_->free_pages()) +
                                                " free");
  }
  if (copy) {
    const int32_t own = pool_->acquire();
    pool_->copy_page(table_[partial], own);
    pool_->release(std::exchange(table_[partial], own));
  }
  for (int64_t i = 0; i < fresh; ++i) table_.push_back(pool_->acquire());
  return {};
}

void Sequence::advance(int64_t n) {
  ISTHMUS_CHECK(n >= 0 && pages_for(length_ + n) <= static_cast<int64_t>(table_.size()));
  length_ += n;
}

void Sequence::truncate(int64_t length) {
  ISTHMUS_CHECK(length >= 0 && length <= length_);
  const size_t keep = static_cast<size_t>(pages_for(length));
  while (table_.size() > keep) {
    pool_->release(table_.back());
    table_.pop_back();
  }
  length_ = length;
}

void Sequence::share_prefix(const Sequence& donor, int64_t tokens) {
  ISTHMUS_CHECK(length_ == 0 && donor.pool_ == pool_ && tokens % kPageTokens == 0);
  ISTHMUS_CHECK(tokens >= 0 && tokens <= donor.length_ && this != &donor);
  truncate(0);
  table_.assign(donor.table_.begin(), donor.table_.begin() + tokens / kPageTokens);
  for (const int32_t page : table_) ++pool_->refs_[static_cast<size_t>(page)];
  length_ = tokens;
}

kernels::KvLayerView Sequence::view(int layer) const {
  const KvShape& s = pool_->shape_;
  return {pool_->layer_base(layer), s.layer_page_bytes(), table_.data(), s.kv_heads, s.head_dim, s.dtype};
}

std::byte* Sequence::head_run(int layer, KvPlane plane, int64_t position) const {
  const KvShape& s = pool_->shape_;
  const size_t page = static_cast<size_t>(table_[static_cast<size_t>(position / kPageTokens)]);
  const size_t half = plane == KvPlane::kKeys ? 0 : s.layer_page_bytes() / 2;
  return pool_->layer_base(layer) + page * s.layer_page_bytes() + half +
         static_cast<size_t>(position % kPageTokens) * row_bytes(s.dtype, s.head_dim);
}

void Sequence::read_rows(int layer, KvPlane plane, int64_t first, int64_t n,
                         std::span<std::byte> bytes) const {
  const KvShape& s = pool_->shape_;
  ISTHMUS_CHECK(first >= 0 && n >= 0 && pages_for(first + n) <= static_cast<int64_t>(table_.size()));
  ISTHMUS_CHECK(layer >= 0 && layer < s.layers &&
                bytes.size() == static_cast<size_t>(n) * s.plane_row_bytes());
  const size_t run = row_bytes(s.dtype, s.head_dim);
  std::byte* to = bytes.data();
  for (int64_t i = 0; i < n; ++i) {
    const std::byte* from = head_run(layer, plane, first + i);
    for (int h = 0; h < s.kv_heads; ++h, to += run)
      std::memcpy(to, from + static_cast<size_t>(h) * kPageTokens * run, run);
  }
}

void Sequence::write_rows(int layer, KvPlane plane, int64_t first, int64_t n,
                          std::span<const std::byte> bytes) {
  const KvShape& s = pool_->shape_;
  ISTHMUS_CHECK(first >= 0 && n >= 0 && pages_for(first + n) <= static_cast<int64_t>(table_.size()));
  ISTHMUS_CHECK(layer >= 0 && layer < s.layers &&
                bytes.size() == static_cast<size_t>(n) * s.plane_row_bytes());
  const size_t run = row_bytes(s.dtype, s.head_dim);
  const std::byte* from = bytes.data();
  for (int64_t i = 0; i < n; ++i) {
    std::byte* to = head_run(layer, plane, first + i);
    for (int h = 0; h < s.kv_heads; ++h, from += run)
      std::memcpy(to + static_cast<size_t>(h) * kPageTokens * run, from, run);
  }
}

}  // namespace isthmus
