// SPDX-License-Identifier: Apache-2.0
// Counters of the block store, for /stats and tests. A value: one consistent snapshot.
#pragma once

#include <cstdint>

namespace isthmus {

struct StoreStats {
  // Now.
  uint64_t ram_blocks = 0;
  uint64_t ram_bytes = 0;
  uint64_t disk_blocks = 0;
  uint64_t disk_bytes = 0;
  uint64_t queued_bytes = 0;  // on their way to the disk
  // Lookups that were to return blocks, and the tokens they returned.
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t hit_tokens = 0;
  // Blocks put.
  uint64_t puts = 0;
  uint64_t duplicates = 0;            // already here; not in `puts`
  uint64_t refused_puts = 0;          // memory floor, or no block of the RAM tier may go
  uint64_t evicted_ram = 0;           // left memory
  uint64_t evicted_disk = 0;          // file removed to keep the quota
  uint64_t disk_reads = 0;            // blocks read and found good
  uint64_t disk_writes = 0;           // blocks made durable
  uint64_t failed_writes = 0;         // the file system refused
  uint64_t dropped_writes = 0;        // the queue was over its bound, or the quota cannot hold the block
  uint64_t floor_skipped_writes = 0;  // less free disk than the floor
  uint64_t quarantined = 0;           // damaged files moved away, or found at start
  uint64_t adopted = 0;               // files that somebody else wrote, found by a lookup
  uint64_t purged = 0;
};

}  // namespace isthmus
