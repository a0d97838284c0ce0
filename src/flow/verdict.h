// SPDX-License-Identifier: Apache-2.0
// The verdict: what really happened to one request, as the header X-PD-Bridge says it. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"

namespace isthmus {

inline constexpr const char* kVerdictHeader = "X-PD-Bridge";

struct Verdict {
  // always
  bool skipped = true;
  int64_t tokens = 0;              // T
  std::string transport = "none";  // "tcp" when a handoff was tried
  std::string mode = "project";    // kv | project | pooled
  // skipped: why the decode engine answered alone
  std::string why;
  int64_t cached_prefix = 0;
  int64_t tail = 0;
  // bridged
  std::string verdict;         // "complete", "partial B/T", "salvage X/T"
  int64_t bridged_tokens = 0;  // B: tokens that the store covers after the bridge
  int64_t blocks = 0;          // blocks that landed, the partial tail included
  int64_t prefilled = 0;
  int64_t reused_by_engine = 0;
  int64_t shipped = 0;
  int64_t tail_rows = 0;
  uint64_t payload_bytes = 0;
  double t_engine_s = 0;     // prefill engine's own time
  double t_assembled_s = 0;  // last row visible
  double t_bridge_total_s = 0;
  // declined: first 200 characters of the reason
  std::optional<std::string> bridge_error;
  bool pending = false;

  bool bridged() const { return !skipped && !bridge_error && !pending; }
  std::string header() const;  // one JSON object, ASCII, under 4 KiB
  Json to_json() const;
};

}  // namespace isthmus
