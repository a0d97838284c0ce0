// SPDX-License-Identifier: Apache-2.0
// How long a chain the block store can hold: sizes from layout, budget and quota, nothing that is stored.
#include <algorithm>

#include "store/block_store.h"
#include "store/chain_sink.h"

namespace isthmus {

TierBytes BlockStore::block_bytes(int64_t first, int64_t last) const {
  const auto tokens = static_cast<size_t>(last - first);
  const size_t planes = context_.layout.block_bytes(first, last);
  TierBytes bytes;
  bytes.ram = block_memory_bytes(tokens, planes);
  if (ssd_ != nullptr) bytes.disk = ssd_->file_bytes_of(tokens, kMaxTransferIdBytes, planes);
  return bytes;
}

TierBytes BlockStore::chain_bytes(int64_t tokens) const {
  TierBytes sum;
  for (int64_t first = 0; first < tokens; first += context_.layout.block_tokens) {
    const TierBytes block = block_bytes(first, std::min(tokens, first + context_.layout.block_tokens));
    sum.ram += block.ram;
    sum.disk += block.disk;
  }
  return sum;
}

// Ancestors of a block stay while it is here, except that those on disk may leave memory. So memory bounds
// the chain, or, with a disk, what comes after the part that the quota holds.
int64_t BlockStore::storable_tokens(int64_t tokens) const {
  uint64_t ram = options_.ram_bytes;
  uint64_t disk = ssd_ != nullptr ? options_.disk_quota_bytes : 0;
  const uint64_t landing = ram + (ssd_ != nullptr ? options_.write_queue_bytes : 0);
  uint64_t parent_bytes = 0;
  int64_t first = 0;
  while (first < tokens) {
    const int64_t last = std::min(tokens, first + context_.layout.block_tokens);
    const TierBytes block = block_bytes(first, last);
    if (parent_bytes + block.ram > landing) return first;  // its parent is held until it is here
    if (ssd_ != nullptr && block.disk <= disk) {
      disk -= block.disk;
    } else if (block.ram <= ram) {
      ram -= block.ram;
    } else {
      return first;
    }
    parent_bytes = block.ram;
    first = last;
  }
  return first;
}

}  // namespace isthmus
