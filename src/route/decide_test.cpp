// SPDX-License-Identifier: Apache-2.0
#include "route/decide.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace isthmus {
namespace {

struct Row {
  const char* name;
  int64_t tokens, cached, resumable;
  bool configured, reachable;
  bool bridge;
  int64_t resume_from;
  const char* why;           // prefix of the reason
  int64_t room = 1'000'000;  // of the store, in tokens of one prompt
};

constexpr Row kRows[] = {
    {"cold", 8000, 0, 0, true, true, true, 0, ""},
    {"exactly the minimum", 1024, 0, 0, true, true, true, 0, ""},
    {"one below", 1023, 0, 0, true, true, false, 0, "short"},
    {"tail exactly the minimum", 4096, 3072, 3072, true, true, true, 3072, ""},
    {"tail one below", 4096, 3073, 3073, true, true, false, 0, "warm"},
    {"all cached", 4096, 4095, 4095, true, true, false, 0, "warm"},
    {"resume at the boundary below", 8000, 3000, 3000, true, true, true, 2816, ""},
    {"resume less than a block", 8000, 255, 255, true, true, true, 0, ""},
    {"cached by another producer", 8000, 4000, 512, true, true, true, 512, ""},
    {"short wins over unreachable", 10, 0, 0, true, false, false, 0, "short"},
    {"unreachable", 8000, 0, 0, true, false, false, 0, "prefill engine unavailable: refused"},
    {"alone", 8000, 0, 0, false, false, false, 0, "no prefill engine configured"},
    {"room for all that a bridge brings", 8000, 0, 0, true, true, true, 0, "", 7999},
    {"room for a part", 8000, 0, 0, true, true, true, 0, "", 7998},
    {"room for the least coverage", 8000, 0, 0, true, true, true, 0, "", 4000},
    {"room for less", 8000, 0, 0, true, true, false, 0, "store too small: 8000 tokens, room for 3999", 3999},
    {"no room", 8000, 0, 0, true, true, false, 0, "store too small: 8000 tokens, room for 0", 0},
    {"room for the least tail", 8000, 3072, 3072, true, true, true, 3072, "", 4095},
    {"room for a smaller tail", 8000, 3073, 3073, true, true, false, 0, "store too small", 4095},
    {"full of this prompt", 8000, 4096, 4096, true, true, false, 0, "store too small", 4096},
    {"no room wins over unreachable", 8000, 0, 0, true, false, false, 0, "store too small", 512},
    {"short wins over no room", 1023, 0, 0, true, true, false, 0, "short", 0},
    {"warm wins over no room", 4096, 3073, 3073, true, true, false, 0, "warm", 3073},
};

TEST(Decide, Table) {
  for (const Row& r : kRows) {
    RouteFacts f;
    f.tokens = r.tokens;
    f.cached_tokens = r.cached;
    f.resumable_tokens = r.resumable;
    f.storable_tokens = std::min(r.tokens - 1, r.room);
    f.prefill_configured = r.configured;
    f.prefill_reachable = r.reachable;
    f.prefill_why = "refused";
    const Decision d = decide(f, BridgeLimits{});
    EXPECT_EQ(d.bridge, r.bridge) << r.name;
    EXPECT_EQ(d.resume_from, r.resume_from) << r.name;
    EXPECT_EQ(d.last, r.bridge ? f.storable_tokens : 0) << r.name;
    EXPECT_EQ(d.why.rfind(r.why, 0), 0u) << r.name << ": " << d.why;
    EXPECT_EQ(d.bridge, d.why.empty()) << r.name;
    EXPECT_EQ(d.cached_tokens, r.cached) << r.name;
  }
}

}  // namespace
}  // namespace isthmus
