// SPDX-License-Identifier: Apache-2.0
#include "handoff/handshake.h"

#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/hash.h"
#include "handoff/frame_format.h"

namespace isthmus::handoff {
namespace {

using Nonce = std::array<std::byte, kNonceBytes>;
using TransferIdBytes = std::array<std::byte, kTransferIdBytes>;

// The role word keeps one side's proof from being reflected as the other's.
Digest proof(const std::string& token, std::string_view role, const Nonce& receiver, const Nonce& sender,
             const TransferIdBytes& id) {
  ByteWriter w;
  w.append(role);
  w.append(std::span<const std::byte>(receiver));
  w.append(std::span<const std::byte>(sender));
  w.append(std::span<const std::byte>(id));
  return hmac_sha256(token, w.bytes());
}

std::optional<TransferIdBytes> id_bytes(std::string_view hex) {
  const auto digest =
      Digest::from_hex(std::string(hex) + std::string(hex));  // 32 digits twice: the parser wants 64
  if (!digest) return std::nullopt;
  TransferIdBytes id;
  for (size_t i = 0; i < id.size(); ++i) id[i] = std::byte{digest->bytes[i]};
  return id;
}

std::string id_hex(const TransferIdBytes& id) {
  Digest d;
  for (size_t i = 0; i < id.size(); ++i) d.bytes[i] = std::to_integer<uint8_t>(id[i]);
  return d.hex().substr(0, 2 * kTransferIdBytes);
}

template <typename Array>
Array take(ByteReader& r) {
  Array a;
  const auto s = r.take(a.size());
  std::copy(s.begin(), s.end(), a.begin());
  return a;
}

}  // namespace

Result<std::string> accept_handshake(ByteStream& stream, const std::string& token, const IoLimits& limits) {
  Nonce ours;
  random_bytes(ours);
  ByteWriter greeting;
  greeting.write(kGreetingMagic);
  greeting.write(uint32_t{kVersion});
  greeting.append(std::span<const std::byte>(ours));
  const ConstBytes greeting_parts[] = {greeting.bytes()};
  TRY(stream.write_all(greeting_parts, limits));

  std::array<std::byte, kProofBytes> bytes;
  TRY(stream.read_exact(bytes, limits));
  ByteReader r(bytes);
  const auto id = take<TransferIdBytes>(r);
  const auto theirs = take<Nonce>(r);
  const Digest expected = proof(token, "isthmus sender", ours, theirs, id);
  if (!equal_constant_time(r.take(32), std::as_bytes(std::span(expected.bytes)))) {
    return Status(Code::kUnauthenticated, "handoff: the sender does not hold this side's token");
  }
  const Digest answer = proof(token, "isthmus receiver", ours, theirs, id);
  const ConstBytes answer_parts[] = {std::as_bytes(std::span(answer.bytes))};
  TRY(stream.write_all(answer_parts, limits));
  return id_hex(id);
}

Status offer_handshake(ByteStream& stream, const std::string& token, const std::string& transfer_id,
                       const IoLimits& limits) {
  const auto id = id_bytes(transfer_id);
  if (!id) return {Code::kInvalidArgument, "handoff: a transfer id is 32 hex digits"};
  std::array<std::byte, kGreetingBytes> greeting;
  TRY(stream.read_exact(greeting, limits));
  ByteReader r(greeting);
  if (r.read<uint32_t>() != kGreetingMagic)
    return {Code::kCorrupt, "handoff: the peer is no handoff receiver"};
  if (const auto version = r.read<uint32_t>(); version != kVersion) {
    return {Code::kUnsupported,
            "handoff: receiver speaks version " + std::to_string(version) + ", this side 1"};
  }
  const auto theirs = take<Nonce>(r);
  Nonce ours;
  random_bytes(ours);
  const Digest mine = proof(token, "isthmus sender", theirs, ours, *id);
  const ConstBytes parts[] = {*id, ours, std::as_bytes(std::span(mine.bytes))};
  TRY(stream.write_all(parts, limits));

  std::array<std::byte, kAnswerBytes> answer;
  if (const Status read = stream.read_exact(answer, limits); !read.ok()) {
    if (read.code() != Code::kUnavailable) return read;
    return {Code::kUnauthenticated, "handoff: the receiver refused this side's token"};
  }
  const Digest expected = proof(token, "isthmus receiver", theirs, ours, *id);
  if (!equal_constant_time(answer, std::as_bytes(std::span(expected.bytes)))) {
    return {Code::kUnauthenticated, "handoff: the receiver does not hold this side's token"};
  }
  return {};
}

}  // namespace isthmus::handoff
