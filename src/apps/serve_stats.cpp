// SPDX-License-Identifier: Apache-2.0
#include "apps/serve_stats.h"

#include "base/fs.h"

namespace isthmus {
namespace {

Json engine_json(const EngineStats& e) {
  return {{"active", e.active},
          {"waiting", e.waiting},
          {"requests", e.requests},
          {"prompt_tokens_computed", e.prompt_tokens_computed},
          {"prompt_tokens_cached", e.prompt_tokens_cached},
          {"tokens_generated", e.tokens_generated}};
}

Json store_json(const StoreStats& s) {
  return {{"ram_blocks", s.ram_blocks},
          {"ram_bytes", s.ram_bytes},
          {"disk_blocks", s.disk_blocks},
          {"disk_bytes", s.disk_bytes},
          {"queued_bytes", s.queued_bytes},
          {"hits", s.hits},
          {"misses", s.misses},
          {"hit_tokens", s.hit_tokens},
          {"puts", s.puts},
          {"duplicates", s.duplicates},
          {"refused_puts", s.refused_puts},
          {"evicted_ram", s.evicted_ram},
          {"evicted_disk", s.evicted_disk},
          {"disk_reads", s.disk_reads},
          {"disk_writes", s.disk_writes},
          {"failed_writes", s.failed_writes},
          {"dropped_writes", s.dropped_writes},
          {"floor_skipped_writes", s.floor_skipped_writes},
          {"quarantined", s.quarantined},
          {"adopted", s.adopted},
          {"purged", s.purged}};
}

Json bridge_json(const BridgeCounters::Values& b) {
  return {{"skipped", b.skipped},
          {"complete", b.complete},
          {"partial", b.partial},
          {"salvaged", b.salvaged},
          {"declined", b.declined},
          {"payload_bytes", b.payload_bytes},
          {"unbridged_wait_s", b.unbridged_wait_s}};
}

Json handoff_json(const handoff::ReceiverStats& h) {
  return {{"live", h.live},           {"connections", h.connections},
          {"refused", h.refused},     {"unauthenticated", h.unauthenticated},
          {"transfers", h.transfers}, {"sealed", h.sealed},
          {"failed", h.failed}};
}

}  // namespace

Json serve_stats(const ServeCounters& c) {
  Json j = {{"engine", engine_json(c.engine)},
            {"store", store_json(c.store)},
            {"bridge", bridge_json(c.bridge)},
            {"process", {{"resident_bytes", resident_bytes()}}}};
  if (c.handoff) j["handoff"] = handoff_json(*c.handoff);
  return j;
}

}  // namespace isthmus
