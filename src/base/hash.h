// SPDX-License-Identifier: Apache-2.0
// Digests: SHA-256 for identities and keys, xxh3-64 for checksums of bytes in flight and at rest, HMAC-SHA256
// for the handshake. The only place that calls the hash libraries. Values and pure functions; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace isthmus {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
  std::string hex() const;                                    // 64 lower-case digits
  static std::optional<Digest> from_hex(std::string_view s);  // exactly 64 lower-case digits
};

struct DigestHash {  // for unordered containers: a digest is already uniform
  size_t operator()(const Digest& d) const;
};

// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256& update(std::span<const std::byte> data);
  Sha256& update(std::string_view text);
  Digest finish();  // once; the object is spent afterwards

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest sha256(std::span<const std::byte> data);
Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::span<const std::byte> data);
bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);
void random_bytes(std::span<std::byte> out);  // cryptographic
std::string random_hex(size_t n_bytes);       // 2n lower-case digits

uint64_t xxh3_64(std::span<const std::byte> data, uint64_t seed = 0);
uint64_t xxh3_64_of_parts(
    std::span<const std::span<const std::byte>> parts);  // of the parts one after the other
std::string hex64(uint64_t v);                           // 16 lower-case digits

inline std::span<const std::byte> as_byte_span(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
inline std::string_view as_text(std::span<const std::byte> b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace isthmus
