// SPDX-License-Identifier: Apache-2.0
// Little-endian reading and writing of byte buffers with every length checked. Readers borrow, writers own.
// Single thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace isthmus {

static_assert(std::endian::native == std::endian::little,
              "files and frames are little-endian and read in place");

using Bytes = std::vector<std::byte>;

// Reads from a span. After the first read past the end, ok() is false and every further value is zero.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  size_t remaining() const { return data_.size() - position_; }

  template <typename T>
  T read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T v{};
    const std::span<const std::byte> s = take(sizeof(T));
    if (ok_) std::memcpy(&v, s.data(), sizeof(T));
    return v;
  }
  std::span<const std::byte> take(size_t n) {
    if (!ok_ || n > remaining()) {
      ok_ = false;
      return {};
    }
    const auto s = data_.subspan(position_, n);
    position_ += n;
    return s;
  }
  void skip(size_t n) { (void)take(n); }

 private:
  std::span<const std::byte> data_;
  size_t position_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  template <typename T>
  void write(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    append({reinterpret_cast<const std::byte*>(&v), sizeof(T)});
  }
  void append(std::span<const std::byte> s) { bytes_.insert(bytes_.end(), s.begin(), s.end()); }
  void append(std::string_view s) {
    append(std::span{reinterpret_cast<const std::byte*>(s.data()), s.size()});
  }
  void pad_to(size_t multiple) { bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple); }
  size_t size() const { return bytes_.size(); }
  const Bytes& bytes() const { return bytes_; }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// Sizes from files: a product that cannot be trusted. False on overflow.
inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool checked_add(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

}  // namespace isthmus
