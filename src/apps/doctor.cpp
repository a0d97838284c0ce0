// SPDX-License-Identifier: Apache-2.0
// isthmus doctor: whether a pair of boxes is ready, check by check, and what to do where it is not.
#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "apps/doctor_checks.h"
#include "apps/render.h"
#include "base/fs.h"
#include "model/checkpoint.h"
#include "model/projection_pack.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;
constexpr uint64_t kDiskFloorBytes = uint64_t{2} << 30;    // as serve's --disk-floor-mib
constexpr uint64_t kMemoryFloorBytes = uint64_t{1} << 30;  // as serve's --memory-floor-mib

struct DoctorOptions {
  std::string decoder = "http://127.0.0.1:8012";
  std::string prefill;
  stdfs::path token_file, model, cache, store;
  bool round_trip = false;
  bool json = false;
};

// Whether this file is the model that the decoder serves.
void check_model(const DoctorOptions& o, const DoctorFacts& facts, DoctorReport& report) {
  if (o.model.empty()) return;
  const std::string name = "model file";
  const auto checkpoint = Checkpoint::open(o.model);
  if (!checkpoint.ok())
    return report.failed(name, checkpoint.status().message(), "give --model a GGUF file or model folder");
  const Digest weights =
      cached_weights_digest(checkpoint->tensors(), checkpoint->files(), o.cache / "digests");
  if (facts.decoder.is_null()) return report.skipped(name, "no decoder identity to compare with");
  if (facts.decoder.value("weights", std::string()) == weights.hex())
    return report.ok(name, o.model.string() + " is what the decoder serves");
  report.failed(name, o.model.string() + " is not what the decoder serves",
                "start `isthmus serve` with this --model, or name the file that it was started with");
}

// The nearest folder that exists: the store makes its own.
stdfs::path existing_parent(stdfs::path path) {
  std::error_code ignored;
  path = stdfs::absolute(path, ignored);
  while (!stdfs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

void check_machine(const DoctorOptions& o, DoctorReport& report) {
  const uint64_t memory = available_memory_bytes();
  if (memory == 0) {
    report.skipped("memory", "the system does not say");
  } else if (memory >= kMemoryFloorBytes) {
    report.ok("memory", human_bytes(memory) + " available");
  } else {
    report.failed("memory", human_bytes(memory) + " available",
                  "end other programs, or lower --ram-store-mib and --memory-floor-mib of `isthmus serve`");
  }
  if (o.store.empty()) return report.skipped("disk", "no --store given");
  PosixFs fs;
  const auto free = fs.free_bytes(existing_parent(o.store));
  if (!free.ok()) return report.failed("disk", free.status().message(), "give --store a folder you may use");
  if (*free >= kDiskFloorBytes)
    return report.ok("disk", human_bytes(*free) + " free for " + o.store.string());
  report.failed("disk", human_bytes(*free) + " free for " + o.store.string(),
                "free some, choose another --store, or lower --disk-floor-mib of `isthmus serve`");
}

const char* state_name(Check::State state) {
  switch (state) {
    case Check::State::kOk:
      return "ok";
    case Check::State::kFailed:
      return "failed";
    case Check::State::kSkipped:
      return "skipped";
  }
  return "";
}

Json report_json(const DoctorReport& report) {
  Json checks = Json::array();
  for (const Check& c : report.checks) {
    Json j = {{"name", c.name}, {"state", state_name(c.state)}, {"detail", c.detail}};
    if (!c.remedy.empty()) j["remedy"] = c.remedy;
    checks.push_back(std::move(j));
  }
  return {{"ok", report.all_ok()}, {"checks", std::move(checks)}};
}

void print_report(const DoctorReport& report) {
  for (const Check& c : report.checks) {
    std::printf("%-8s %-17s %s\n", state_name(c.state), c.name.c_str(), c.detail.c_str());
    if (!c.remedy.empty()) std::printf("%-8s %-17s -> %s\n", "", "", c.remedy.c_str());
  }
  std::puts(report.all_ok() ? "all checks passed" : "not ready: see the lines marked failed");
}

Result<DoctorReport> examine(const DoctorOptions& o) {
  ASSIGN_OR_RETURN(const std::string token, read_token(o.token_file));
  HttpClientOptions http_options;
  http_options.max_response_bytes = uint64_t{4} << 30;  // packs of large models
  ASSIGN_OR_RETURN(const HttpClient http, HttpClient::create(http_options));
  DoctorServers servers{http, {}, std::nullopt};
  servers.decoder.token = token;
  ASSIGN_OR_RETURN(servers.decoder.url, parse_url(o.decoder));
  if (!o.prefill.empty()) {
    ASSIGN_OR_RETURN(Url url, parse_url(o.prefill));
    servers.prefill = Peer{std::move(url), token};
  }
  DoctorFacts facts;
  DoctorReport report;
  check_decoder(servers, facts, report);
  check_projection(servers, facts, report);
  check_handoff(servers, facts, report);
  check_prefill(servers, facts, report);
  if (servers.prefill) check_pair(facts, report);
  check_model(o, facts, report);
  check_machine(o, report);
  if (o.round_trip) check_round_trip(servers, facts, report);
  return report;
}

int run_doctor(const DoctorOptions& o) {
  const auto report = examine(o);
  if (!report.ok()) return fail(report.status());
  if (o.json) {
    show(report_json(*report), true);
  } else {
    print_report(*report);
  }
  return report->all_ok() ? 0 : 1;
}

}  // namespace

Command add_doctor(CLI::App& parent) {
  auto o = std::make_shared<DoctorOptions>();
  CLI::App* app =
      parent.add_subcommand("doctor", "check a running pair and say what to do about what is wrong");
  app->footer("Exit 0: no check failed, 1: at least one did.");
  app->add_option("--decoder", o->decoder, "URL of `isthmus serve`")->capture_default_str();
  app->add_option("--prefill", o->prefill, "URL of the prefill engine; absent: the decoder alone is checked");
  add_token_option(*app, o->token_file);
  app->add_option("--model", o->model, "also check that this is the model that the decoder serves");
  add_cache_option(*app, o->cache);
  app->add_option("--store", o->store, "also check the free space of this folder");
  app->add_flag("--round-trip", o->round_trip,
                "also send one prompt of about 1,100 tokens through the pair (no answer is generated)");
  app->add_flag("--json", o->json, "one JSON object instead of text");
  return {app, [o] { return run_doctor(*o); }};
}

}  // namespace isthmus
