// SPDX-License-Identifier: Apache-2.0
#include "decode/sampler.h"

#include <algorithm>
#include <cmath>

#include "kernels/vector_ops.h"

namespace isthmus {
namespace {

using Candidate = std::pair<float, TokenId>;

bool better(const Candidate& a, const Candidate& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// Splitmix64: one step of a generator whose state is the counter itself.
uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

double counter_uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(mix(mix(seed) ^ index) >> 11) * 0x1p-53;
}

TokenId Sampler::draw(std::span<const float> logits, const SamplingParams& params, uint64_t index) {
  candidates_.clear();
  const float floor = params.min_p > 0 ? *std::max_element(logits.begin(), logits.end()) +
                                             static_cast<float>(params.temperature * std::log(params.min_p))
                                       : -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor) candidates_.emplace_back(logits[i], static_cast<TokenId>(i));
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < candidates_.size()) {
    const auto cut = candidates_.begin() + params.top_k;
    std::nth_element(candidates_.begin(), cut, candidates_.end(), better);
    candidates_.erase(cut, candidates_.end());
  }
  std::sort(candidates_.begin(), candidates_.end(), better);

  const double top = candidates_.front().first;
  double total = 0;
  for (const Candidate& c : candidates_) total += std::exp((c.first - top) / params.temperature);
  if (params.top_p < 1) {
    double kept = 0;
    size_t n = 0;
    while (n < candidates_.size() && (n == 0 || kept < params.top_p * total)) {
      kept += std::exp((candidates_[n++].first - top) / params.temperature);
    }
    candidates_.resize(n);
    total = kept;
  }
  double left = counter_uniform(params.seed, index) * total;
  for (const Candidate& c : candidates_) {
    left -= std::exp((c.first - top) / params.temperature);
    if (left < 0) return c.second;
  }
  return candidates_.back().second;  // rounding left a sliver
}

TokenEvent Sampler::sample(std::span<const float> logits, const SamplingParams& params, uint64_t index) {
  TokenEvent event;
  event.id = params.temperature > 0
                 ? draw(logits, params, index)
                 : static_cast<TokenId>(kernels::argmax(logits.data(), std::ssize(logits)));
  if (params.top_logprobs < 0) return event;
  const float norm = kernels::log_sum_exp(logits.data(), std::ssize(logits));
  event.logprob = logits[static_cast<size_t>(event.id)] - norm;
  const size_t n = std::min(static_cast<size_t>(params.top_logprobs), logits.size());
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) candidates_.emplace_back(logits[i], static_cast<TokenId>(i));
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n),
                    candidates_.end(), better);
  for (size_t i = 0; i < n; ++i) {
    event.top.emplace_back(candidates_[i].second, candidates_[i].first - norm);
  }
  return event;
}

}  // namespace isthmus
