// SPDX-License-Identifier: Apache-2.0
// The cases of `isthmus bench`: prompts of one length, so many at once, so many times; and what their timings
// come to. One thread calls; run_case starts one thread per stream. Knows no options and prints nothing.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "apps/bench_client.h"

namespace isthmus {

struct BenchCase {
  int64_t prompt_tokens = 1024;
  int64_t max_tokens = 64;
  int streams = 1;  // requests at once
  int repeat = 3;
  bool warm = false;  // each repetition has the same prompts, after one that does not count
};

// Ids at random, so that no two prompts share a prefix. The first and last sixteenth of the vocabulary are
// left out: that is where control tokens are.
class PromptMaker {
 public:
  PromptMaker(uint64_t seed, int64_t vocabulary);
  std::vector<TokenId> make(int64_t tokens);

 private:
  std::mt19937_64 random_;
  std::uniform_int_distribution<TokenId> ids_;
};

// One object: the case, medians and 95th percentiles, and each request under "samples". A request that fails
// fails the case.
Result<Json> run_case(const BenchClient& client, PromptMaker& prompts, const BenchCase& c);

}  // namespace isthmus
