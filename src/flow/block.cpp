// SPDX-License-Identifier: Apache-2.0
#include "flow/block.h"

namespace isthmus {

BlockKey root_key(const Digest& identity) {
  return Sha256().update("isthmus-root-1").update(std::as_bytes(std::span(identity.bytes))).finish();
}

BlockKey block_key(const BlockKey& parent, const Source& source, std::span<const TokenId> ids) {
  const auto kind = static_cast<uint8_t>(source.kind);
  const auto count = static_cast<uint32_t>(ids.size());
  Sha256 h;
  h.update("isthmus-block-1").update(std::as_bytes(std::span(parent.bytes)));
  h.update(std::as_bytes(std::span(&kind, 1))).update(std::as_bytes(std::span(source.producer.bytes)));
  h.update(std::as_bytes(std::span(&count, 1))).update(std::as_bytes(ids));
  return h.finish();
}

Digest ids_digest(std::span<const TokenId> ids) {
  return sha256(std::as_bytes(ids));
}

}  // namespace isthmus
