// SPDX-License-Identifier: Apache-2.0
// The block file: one block of finished cache, self-describing and checksummed. Format:
// docs/formats/block.md. Pure functions over bytes (parsing never trusts a size); any thread. Reading and
// writing files is ssd_tier.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flow/block.h"
#include "flow/plane.h"

namespace isthmus {

// What every block of a store has in common.
struct BlockContext {
  Digest identity;
  PlaneLayout layout;
  std::string layout_json;  // canonical
  Digest layout_digest;     // SHA-256 of layout_json

  static BlockContext of(const Digest& identity, PlaneLayout layout);
};

struct BlockHeader {
  Digest identity;
  Digest layout_digest;
  std::string layout_json;
  Block block;  // without planes
  uint64_t planes_bytes = 0;
  uint64_t planes_checksum = 0;
  size_t header_bytes = 0;  // the planes start here

  uint64_t file_bytes() const { return header_bytes + planes_bytes; }
};

// Everything before the planes; a file is this, then block.planes.
Bytes encode_block_header(const Block& block, const BlockContext& context);

// `bytes` begin with a whole header (more may follow). Checks all that the header says about itself: sizes,
// checksum, layout digest, key. `where` starts every message. Errors: kCorrupt, kUnsupported (version).
Result<BlockHeader> parse_block_header(std::span<const std::byte> bytes, std::string_view where);

// Whether the block belongs into a store: identity, layout, position and closed-form size. Errors: kMismatch,
// kCorrupt.
Status check_block_header(const BlockHeader& header, const BlockContext& context, std::string_view where);

// A whole file: header, its place in the store, and the planes' checksum.
Result<BlockPtr> parse_block(std::span<const std::byte> file, const BlockContext& context,
                             std::string_view where);

}  // namespace isthmus
