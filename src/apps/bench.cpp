// SPDX-License-Identifier: Apache-2.0
// isthmus bench: times a running server over HTTP, or one that it starts for the purpose.
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/bench_cases.h"
#include "apps/child_server.h"
#include "apps/command.h"
#include "apps/loaded_model.h"
#include "apps/render.h"
#include "base/hash.h"
#include "base/thread.h"

namespace isthmus {
namespace {

constexpr int64_t kUsualVocabulary = 32000;  // the smallest of the models in use
constexpr int64_t kWarmUpTokens = 32;
constexpr int kSignalPollMs = 100;

struct BenchOptions {
  std::string url;
  std::filesystem::path model;
  std::vector<std::string> serve_args;
  std::vector<int64_t> prompt_tokens = {1024, 4096};
  std::vector<int> streams = {1};
  int64_t max_tokens = 64;
  int repeat = 3;
  bool warm = false;
  int64_t vocabulary = 0;
  std::optional<uint64_t> seed;
  bool json = false;
};

struct PrivateServer {
  Child child;
  std::string url;
};

Result<PrivateServer> start_server(const BenchOptions& o) {
  ASSIGN_OR_RETURN(const uint16_t port, free_loopback_port());
  std::vector<std::string> argv = {own_executable().string(), "serve", "--model", o.model.string(), "--port",
                                   std::to_string(port),      "--log", "warn"};
  argv.insert(argv.end(), o.serve_args.begin(), o.serve_args.end());
  ASSIGN_OR_RETURN(Child child, Child::spawn(argv, {}));
  TRY(wait_until_up(child, "serve", port));
  return PrivateServer{std::move(child), loopback_url(port)};
}

Result<int64_t> vocabulary_of(const BenchOptions& o) {
  if (o.vocabulary > 0) return o.vocabulary;
  if (o.model.empty()) return kUsualVocabulary;
  ASSIGN_OR_RETURN(const ModelText text, load_text(o.model));
  return static_cast<int64_t>(text.tokenizer.vocab_size());
}

uint64_t fresh_seed() {
  uint64_t seed = 0;
  random_bytes(std::as_writable_bytes(std::span(&seed, 1)));
  return seed;
}

void print_head() {
  std::printf("%8s %8s %10s %10s %12s %12s %12s  %s\n", "prompt", "streams", "ttft p50", "ttft p95",
              "prefill", "decode", "all streams", "outcome");
  std::printf("%8s %8s %10s %10s %12s %12s %12s\n", "tokens", "", "s", "s", "tok/s", "tok/s each", "tok/s");
}

void print_row(const Json& c) {
  std::string outcomes;
  for (const auto& [name, count] : c["outcomes"].items())
    outcomes += (outcomes.empty() ? "" : ", ") + (name.empty() ? "no verdict" : name);
  char total[32] = "-";  // the streams never wrote at the same time
  if (c["total_decode_tok_s"].is_number())
    std::snprintf(total, sizeof(total), "%.1f", c["total_decode_tok_s"].get<double>());
  std::printf("%8lld %8lld %10.3f %10.3f %12.1f %12.1f %12s  %s\n",
              static_cast<long long>(c["prompt_tokens"].get<int64_t>()),
              static_cast<long long>(c["streams"].get<int64_t>()), c["ttft_s_p50"].get<double>(),
              c["ttft_s_p95"].get<double>(), c["prefill_tok_s"].get<double>(),
              c["decode_tok_s"].get<double>(), total, outcomes.c_str());
  std::fflush(stdout);
}

Result<Json> run_cases(const BenchOptions& o, const std::string& url) {
  // Ctrl-C ends the calls, so that a private server is ended as well.
  std::stop_source interrupted;
  ASSIGN_OR_RETURN(const std::jthread watch, start_thread([interrupted](const std::stop_token& done) mutable {
                     while (!done.stop_requested() && !interrupted.stop_requested()) {
                       if (end_signal_pending(kSignalPollMs)) interrupted.request_stop();
                     }
                   }));
  ASSIGN_OR_RETURN(const BenchClient client, BenchClient::connect(url, interrupted.get_token()));
  ASSIGN_OR_RETURN(const int64_t vocabulary, vocabulary_of(o));
  const uint64_t seed = o.seed.value_or(fresh_seed());
  PromptMaker prompts(seed, vocabulary);
  // What a server does once, at its first request, is no part of any case.
  if (const auto first = client.complete(prompts.make(kWarmUpTokens), 4); !first.ok()) return first.status();
  Json cases = Json::array();
  if (!o.json) print_head();
  for (const int64_t tokens : o.prompt_tokens) {
    for (const int streams : o.streams) {
      if (o.json) std::fprintf(stderr, "%lld tokens, %d at once\n", static_cast<long long>(tokens), streams);
      ASSIGN_OR_RETURN(Json result,
                       run_case(client, prompts, {tokens, o.max_tokens, streams, o.repeat, o.warm}));
      if (!o.json) print_row(result);
      cases.push_back(std::move(result));
    }
  }
  return Json{{"url", url},
              {"model", client.model()},
              {"version", ISTHMUS_VERSION},
              {"warm", o.warm},
              {"repeat", o.repeat},
              {"seed", seed},
              {"vocabulary", vocabulary},
              {"cases", std::move(cases)}};
}

Result<Json> bench(const BenchOptions& o) {
  if (!o.url.empty()) return run_cases(o, o.url);
  ASSIGN_OR_RETURN(const PrivateServer server, start_server(o));
  return run_cases(o, server.url);
}

int run_bench(const BenchOptions& o) {
  if (o.url.empty() && o.model.empty())
    return fail({Code::kInvalidArgument, "bench: expected --url or --model"});
  block_end_signals();
  const auto result = bench(o);
  if (!result.ok()) return fail(result.status());
  if (o.json) std::puts(dump_json(*result).c_str());
  return 0;
}

}  // namespace

Command add_bench(CLI::App& parent) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* app = parent.add_subcommand("bench", "time a server: first token, prefill, decode");
  app->footer(
      "Prompts are token ids drawn at random, so that nothing of them is cached. Prefill: prompt tokens\n"
      "divided by the time to the first token. All streams: while all of them are writing.");
  app->add_option("--url", o->url, "a running OpenAI-compatible server");
  app->add_option(
      "--model", o->model,
      "without --url: serve this model for the time of the run; its vocabulary is used either way");
  app->add_option("--serve-arg", o->serve_args, "passed on to that server (repeatable)")
      ->allow_extra_args(false);
  app->add_option("--prompt-tokens", o->prompt_tokens, "lengths, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  app->add_option("--streams", o->streams, "requests at once, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--max-tokens", o->max_tokens, "length of each answer")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app->add_option("--repeat", o->repeat, "how often each case is run")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app->add_flag("--warm", o->warm, "ask each prompt once before its case, so that it is cached");
  app->add_option("--vocabulary", o->vocabulary, "ids are drawn from this many; 0: the model's, else 32000")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app->add_option("--seed", o->seed, "of the prompts; a fresh one without it");
  app->add_flag("--json", o->json, "one JSON object, every sample included");
  return {app, [o] { return run_bench(*o); }};
}

}  // namespace isthmus
