// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor_checks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "flow/identity.h"
#include "handoff/frame_format.h"
#include "model/projection_pack.h"
#include "net/tcp.h"

namespace isthmus {
namespace {

constexpr int64_t kAnswerMs = 5'000;
constexpr int64_t kRoundTripMs = 300'000;  // a cold prefill on a slow machine
constexpr int64_t kRoundTripTokens = 1'100;

HttpCall quick_call(const Peer& peer, std::string_view path) {
  HttpCall call = peer.call("GET", path);
  call.timeouts = {kAnswerMs, kAnswerMs, -1};
  return call;
}

std::string remedy_for(const Status& status, std::string_view command) {
  const std::string role(command);
  switch (status.code()) {
    case Code::kUnauthenticated:
      return "pass --auth-token-file with the file that `isthmus " + role + "` was started with";
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return "start it (`isthmus " + role +
             " --help`), or correct the URL; on another box, look at its --bind "
             "and at firewalls";
    default:
      return "something else answers at this URL, or another version: correct the URL or update";
  }
}

bool check_health(const HttpClient& http, const Peer& peer, const std::string& name, std::string_view command,
                  DoctorReport& report) {
  const auto health = ask_peer_json(http, peer, quick_call(peer, "/health"));
  if (!health.ok()) {
    report.failed(name, health.status().message(), remedy_for(health.status(), command));
    return false;
  }
  report.ok(name, peer.name() + " answers");
  return true;
}

// The fields of an identity whose digest is theirs.
Json checked_fields(const Json& fields, const Json& digest, const std::string& name, DoctorReport& report) {
  const std::string hex = digest.is_string() ? digest.get<std::string>() : "";
  const auto identity = Identity::from_peer(fields, hex);
  if (!identity.ok()) {
    report.failed(name, identity.status().message(),
                  "the answer was changed on its way or comes from another program: correct the URL");
    return {};
  }
  report.ok(name, hex.substr(0, 12) + ", digest is that of its fields");
  return identity->fields;
}

Json member(const Json& j, const char* name) {
  return j.is_object() && j.contains(name) ? j.at(name) : Json();
}

std::string text_of(const Json& j) {
  return j.is_null() ? "unknown" : j.is_string() ? j.get<std::string>() : dump_json(j);
}

Status read_greeting(const std::string& host, uint16_t port) {
  const IoLimits limits = IoLimits::within_ms(kAnswerMs);
  ASSIGN_OR_RETURN(const auto stream, TcpStream::connect({host, port}, limits));
  std::array<std::byte, handoff::kGreetingBytes> greeting;
  TRY(stream->read_exact(greeting, limits));
  ByteReader r(greeting);
  if (r.read<uint32_t>() != handoff::kGreetingMagic)
    return {Code::kCorrupt, "what listens there is no handoff receiver"};
  if (const auto version = r.read<uint32_t>(); version != handoff::kVersion)
    return {Code::kUnsupported,
            "handoff version " + std::to_string(version) + ", expected " + std::to_string(handoff::kVersion)};
  return {};
}

// Different at each call, so that no cache answers: ids below `vocab`, from the end where words are.
std::vector<int64_t> fresh_prompt(int64_t vocab) {
  std::vector<int64_t> ids;
  std::array<std::byte, 4 * kRoundTripTokens> noise;
  random_bytes(noise);
  ByteReader r(noise);
  const int64_t first = vocab / 4;
  for (int64_t i = 0; i < kRoundTripTokens; ++i) ids.push_back(first + r.read<uint32_t>() % (vocab - first));
  return ids;
}

Result<Json> ask_bridge_only(const DoctorServers& servers, int64_t vocab) {
  HttpCall call = servers.decoder.call("POST", "/v1/completions");
  call.headers.add("Content-Type", "application/json");
  call.headers.add("X-PD-Bridge-Only", "1");
  call.body = dump_json({{"prompt", fresh_prompt(vocab)}, {"max_tokens", 1}});
  call.timeouts = {kAnswerMs, -1, kRoundTripMs};
  ASSIGN_OR_RETURN(const HttpResponse reply, ask_peer(servers.http, servers.decoder, call));
  const auto header = reply.headers.get("X-PD-Bridge");
  if (!header) return Status(Code::kCorrupt, "the reply has no X-PD-Bridge header");
  return parse_json(*header, "X-PD-Bridge");
}

void report_verdict(const Json& verdict, bool expects_bridge, DoctorReport& report) {
  constexpr const char* kName = "round trip";
  if (verdict.contains("bridge_error")) {
    return report.failed(kName, "the bridge declined: " + text_of(verdict["bridge_error"]),
                         "the message names the side and the reason; the logs of both servers say more");
  }
  if (verdict.value("skipped", true)) {
    const std::string why = text_of(member(verdict, "why"));
    if (!expects_bridge) return report.ok(kName, "answered alone (" + why + ")");
    return report.failed(
        kName, "answered alone: " + why,
        "start `isthmus serve` with --prefill, and see the prefill checks above; a --min-tokens over " +
            std::to_string(kRoundTripTokens) + " also keeps this prompt native");
  }
  report.ok(kName, text_of(member(verdict, "verdict")) + ": " + text_of(member(verdict, "shipped")) +
                       " tokens shipped in " + text_of(member(verdict, "t_bridge_total")) + " s");
}

}  // namespace

void DoctorReport::ok(std::string name, std::string detail) {
  checks.push_back({std::move(name), Check::State::kOk, std::move(detail), ""});
}
void DoctorReport::failed(std::string name, std::string detail, std::string remedy) {
  checks.push_back({std::move(name), Check::State::kFailed, std::move(detail), std::move(remedy)});
}
void DoctorReport::skipped(std::string name, std::string why) {
  checks.push_back({std::move(name), Check::State::kSkipped, std::move(why), ""});
}
bool DoctorReport::all_ok() const {
  return std::all_of(checks.begin(), checks.end(),
                     [](const Check& c) { return c.state != Check::State::kFailed; });
}

void check_decoder(const DoctorServers& servers, DoctorFacts& facts, DoctorReport& report) {
  const std::string name = "decoder identity";
  if (!check_health(servers.http, servers.decoder, "decoder", "serve", report))
    return report.skipped(name, "the decoder does not answer");
  const auto j = ask_peer_json(servers.http, servers.decoder, quick_call(servers.decoder, "/v1/identity"));
  if (!j.ok()) return report.failed(name, j.status().message(), remedy_for(j.status(), "serve"));
  const Json identity = member(*j, "identity");
  facts.decoder = checked_fields(member(identity, "fields"), member(identity, "digest"), name, report);
  const Json port = member(*j, "handoff_port");
  if (port.is_number_integer() && port.get<int64_t>() > 0 && port.get<int64_t>() < 65536)
    facts.handoff_port = static_cast<uint16_t>(port.get<int64_t>());
}

void check_projection(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report) {
  const std::string name = "projection pack";
  if (facts.decoder.is_null()) return report.skipped(name, "no decoder identity");
  const std::string wrong = "the decoder serves a pack of another model: restart `isthmus serve`";
  const auto reply = ask_peer(servers.http, servers.decoder, quick_call(servers.decoder, "/v1/projection"));
  if (!reply.ok()) return report.failed(name, reply.status().message(), remedy_for(reply.status(), "serve"));
  const auto pack = load_projection_pack(as_byte_span(reply->body), "/v1/projection");
  if (!pack.ok()) return report.failed(name, pack.status().message(), wrong);
  const std::string expected = text_of(member(facts.decoder, "projection"));
  if (pack->digest.hex() != expected) {
    return report.failed(name, "the identity says " + expected + ", the pack has " + pack->digest.hex(),
                         wrong);
  }
  report.ok(name, expected.substr(0, 12) + ", " + std::to_string(reply->body.size()) +
                      " bytes, as the identity says");
}

void check_handoff(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report) {
  const std::string name = "handoff port";
  if (facts.decoder.is_null()) return report.skipped(name, "no decoder identity");
  if (!facts.handoff_port) {
    if (!servers.prefill) return report.skipped(name, "the decoder runs on its own (no --prefill)");
    return report.failed(name, "the decoder takes no transfers",
                         "start `isthmus serve` with --prefill " + servers.prefill->name());
  }
  const std::string& host = servers.decoder.url.host;
  const std::string where = host + ":" + std::to_string(*facts.handoff_port);
  const Status greeted = read_greeting(host, *facts.handoff_port);
  if (greeted.ok()) return report.ok(name, where + " greets");
  report.failed(name, where + ": " + greeted.message(),
                "open this port between the boxes (--handoff-port of `isthmus serve` chooses it)");
}

void check_prefill(const DoctorServers& servers, DoctorFacts& facts, DoctorReport& report) {
  const std::string name = "prefill identity";
  if (!servers.prefill) return report.skipped("prefill", "no --prefill given");
  const Peer& peer = *servers.prefill;
  if (!check_health(servers.http, peer, "prefill", "prefill", report))
    return report.skipped(name, "the prefill engine does not answer");
  const auto j = ask_peer_json(servers.http, peer, quick_call(peer, "/v1/identity"));
  if (!j.ok()) return report.failed(name, j.status().message(), remedy_for(j.status(), "prefill"));
  facts.prefill = checked_fields(member(*j, "fields"), member(*j, "producer"), name, report);
}

void check_pair(const DoctorFacts& facts, DoctorReport& report) {
  if (facts.decoder.is_null() || facts.prefill.is_null()) {
    report.skipped("RoPE", "needs the identity of both sides");
    return report.skipped("weights", "needs the identity of both sides");
  }
  const Json here = member(member(facts.decoder, "model"), "rope");
  const Json there = member(member(facts.prefill, "model"), "rope");
  const std::string both = "decoder " + text_of(here) + ", prefill " + text_of(there);
  if (here.is_null() || there.is_null()) {
    report.skipped("RoPE", both);
  } else if (here == there) {
    report.ok("RoPE", "same on both sides: " + text_of(here));
  } else {
    report.failed("RoPE", first_difference(here, there) + " (here: decoder); " + both,
                  "give both sides the same model, or correct the RoPE entries of the one that is wrong");
  }
  const Json ours = member(facts.decoder, "weights"), theirs = member(facts.prefill, "weights");
  if (ours.is_null() || theirs.is_null()) return report.skipped("weights", "one side does not say");
  const Json our_form = member(facts.decoder, "arithmetic"), their_form = member(facts.prefill, "arithmetic");
  if (ours != theirs) {
    report.ok("weights", "different: a bridged answer may differ from the decoder's own");
  } else if (our_form != their_form) {
    report.ok("weights", "same on both sides, multiplied in different forms (decoder " + text_of(our_form) +
                             ", prefill " + text_of(their_form) +
                             "): a bridged answer may differ from the decoder's own");
  } else {
    report.ok(
        "weights",
        "same on both sides: a bridged answer is the unbridged one, bit for bit, if both boxes have the same "
        "instruction set");
  }
}

void check_round_trip(const DoctorServers& servers, const DoctorFacts& facts, DoctorReport& report) {
  const std::string name = "round trip";
  const Json vocab = member(member(facts.decoder, "model"), "vocab");
  if (!vocab.is_number_integer() || vocab.get<int64_t>() < 8)
    return report.skipped(name, "no decoder identity");
  const auto verdict = ask_bridge_only(servers, vocab.get<int64_t>());
  if (!verdict.ok())
    return report.failed(name, verdict.status().message(), "the log of `isthmus serve` says more");
  report_verdict(*verdict, servers.prefill.has_value(), report);
}

}  // namespace isthmus
