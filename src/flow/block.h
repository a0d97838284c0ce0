// SPDX-License-Identifier: Apache-2.0
// Blocks: P tokens of finished cache (or fewer: the partial tail block of a sequence), addressed by content.
// Immutable once made and shared by pointer between the store, leases and readers on any thread. Formula of
// the key: docs/formats/block.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/token.h"
#include "flow/source.h"

namespace isthmus {

using BlockKey = Digest;

// Parent of the first block of every chain: SHA-256("isthmus-root-1" ‖ identity 32 bytes).
BlockKey root_key(const Digest& identity);
// SHA-256("isthmus-block-1" ‖ parent ‖ source kind u8 ‖ producer 32 bytes ‖ count u32 LE ‖ ids i32 LE).
BlockKey block_key(const BlockKey& parent, const Source& source, std::span<const TokenId> ids);

// SHA-256 of ids as i32 LE: what a transfer is checked against.
Digest ids_digest(std::span<const TokenId> ids);

struct Block {
  BlockKey key;
  BlockKey parent;
  int64_t first_token = 0;   // a multiple of P
  std::vector<TokenId> ids;  // 1..P tokens [first_token, first_token + ids.size())
  Source source;
  std::string transfer_id;  // of the handoff that brought it; empty for native
  Bytes planes;             // PlaneLayout::block_bytes(first, last), planes in layout order

  int64_t last_token() const { return first_token + static_cast<int64_t>(ids.size()); }
};
using BlockPtr = std::shared_ptr<const Block>;

}  // namespace isthmus
