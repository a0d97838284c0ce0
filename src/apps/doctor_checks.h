// SPDX-License-Identifier: Apache-2.0
// The checks of `isthmus doctor` that talk to the two servers. Each appends to a report what it found and,
// when that is wrong, what to do about it; what one check learns, later ones use. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "net/http_client.h"
#include "prefill/peer_http.h"

namespace isthmus {

struct Check {
  enum class State { kOk, kFailed, kSkipped };
  std::string name;
  State state = State::kOk;
  std::string detail;
  std::string remedy;  // of a failed check
};

struct DoctorReport {
  std::vector<Check> checks;
  void ok(std::string name, std::string detail);
  void failed(std::string name, std::string detail, std::string remedy);
  void skipped(std::string name, std::string why);
  bool all_ok() const;  // none failed
};

struct DoctorServers {
  const HttpClient& http;
  Peer decoder;
  std::optional<Peer> prefill;  // absent: a decoder on its own
};

// What the servers said of themselves; null where they did not.
struct DoctorFacts {
  Json decoder;  // fields of the decoder's identity
  Json prefill;  // fields of the prefill engine's
  std::optional<uint16_t> handoff_port;
};

void check_decoder(const DoctorServers& servers, DoctorFacts& facts, DoctorReport& report);
void check_projection(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report);
void check_handoff(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report);
void check_prefill(const DoctorServers& servers, DoctorFacts& facts, DoctorReport& report);
void check_pair(const DoctorFacts& facts, DoctorReport& report);  // RoPE and weights of both
// A prompt just long enough to be bridged, and no answer.
void check_round_trip(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report);

}  // namespace isthmus
