// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <xxhash.h>

#include <cstring>
#include <utility>

#include "base/status.h"

namespace isthmus {
namespace {

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const uint8_t b : bytes) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  return to_hex(bytes);
}

std::optional<Digest> Digest::from_hex(std::string_view s) {
  Digest d;
  if (s.size() != 2 * d.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < d.bytes.size(); ++i) {
    const int hi = hex_value(s[2 * i]);
    const int lo = hex_value(s[2 * i + 1]);
    if (hi < 0 || lo < 0) return std::nullopt;
    d.bytes[i] = static_cast<uint8_t>(hi * 16 + lo);
  }
  return d;
}

size_t DigestHash::operator()(const Digest& d) const {
  size_t v = 0;
  std::memcpy(&v, d.bytes.data(), sizeof v);
  return v;
}

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  ISTHMUS_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> data) {
  ISTHMUS_CHECK(EVP_DigestUpdate(impl_->context, data.data(), data.size()) == 1);
  return *this;
}
Sha256& Sha256::update(std::string_view text) {
  return update(as_byte_span(text));
}

Digest Sha256::finish() {
  Digest d;
  unsigned length = 0;
  ISTHMUS_CHECK(EVP_DigestFinal_ex(impl_->context, d.bytes.data(), &length) == 1 && length == d.bytes.size());
  return d;
}

Digest sha256(std::span<const std::byte> data) {
  return Sha256().update(data).finish();
}
Digest sha256(std::string_view text) {
  return sha256(as_byte_span(text));
}

Digest hmac_sha256(std::string_view key, std::span<const std::byte> data) {
  Digest d;
  unsigned length = 0;
  const auto* in = reinterpret_cast<const unsigned char*>(data.data());
  const bool done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), in, data.size(),
                         d.bytes.data(), &length) != nullptr;
  ISTHMUS_CHECK(done && length == d.bytes.size());
  return d;
}

bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<std::byte> out) {
  ISTHMUS_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1);
}

std::string random_hex(size_t n_bytes) {
  std::string raw(n_bytes, '\0');
  random_bytes({reinterpret_cast<std::byte*>(raw.data()), raw.size()});
  return to_hex({reinterpret_cast<const uint8_t*>(raw.data()), raw.size()});
}

uint64_t xxh3_64(std::span<const std::byte> data, uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

uint64_t xxh3_64_of_parts(std::span<const std::span<const std::byte>> parts) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  ISTHMUS_CHECK(state != nullptr && XXH3_64bits_reset(state.get()) == XXH_OK);
  for (const auto& part : parts) (void)XXH3_64bits_update(state.get(), part.data(), part.size());
  return XXH3_64bits_digest(state.get());
}

std::string hex64(uint64_t v) {
  std::array<uint8_t, 8> big_endian;
  for (size_t i = 0; i < big_endian.size(); ++i) big_endian[i] = static_cast<uint8_t>(v >> (56 - 8 * i));
  return to_hex(big_endian);
}

}  // namespace isthmus
