// SPDX-License-Identifier: Apache-2.0
#include "flow/verdict.h"

#include <cmath>

namespace isthmus {
namespace {

constexpr size_t kMaxReason = 200;

double milli(double seconds) {
  return std::round(seconds * 1e3) / 1e3;
}

double coverage(int64_t part, int64_t whole) {
  return whole > 0 ? std::round(1e4 * static_cast<double>(part) / static_cast<double>(whole)) / 1e4 : 0;
}

}  // namespace

Json Verdict::to_json() const {
  Json j;
  if (pending) j["pending"] = true;
  j["skipped"] = skipped;
  j["tokens"] = tokens;
  j["transport"] = transport;
  j["mode"] = mode;
  if (skipped) {
    j["why"] = why.substr(0, kMaxReason);
    j["cached_prefix"] = cached_prefix;
    j["tail"] = tail;
  } else if (bridged()) {
    j["verdict"] = verdict;
    j["B"] = bridged_tokens;
    j["coverage"] = coverage(bridged_tokens, tokens);
    j["blocks"] = blocks;
    j["cached_prefix"] = cached_prefix;
    j["prefilled"] = prefilled;
    j["reused_by_engine"] = reused_by_engine;
    j["shipped"] = shipped;
    j["t_engine"] = milli(t_engine_s);
    j["t_assembled"] = milli(t_assembled_s);
    j["pulled_gb"] = static_cast<double>(payload_bytes) / 1e9;
    j["tail_rows"] = tail_rows;
  }
  if (!pending) j["t_bridge_total"] = milli(t_bridge_total_s);
  if (bridge_error) j["bridge_error"] = bridge_error->substr(0, kMaxReason);
  return j;
}

std::string Verdict::header() const {
  return dump_ascii(to_json());
}

}  // namespace isthmus
