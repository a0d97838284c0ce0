// SPDX-License-Identifier: Apache-2.0
// isthmus prefill: the compute box. Reads prompts, turns them into the decoder's cache and pushes that while
// it reads.
#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "apps/loaded_model.h"
#include "base/log.h"
#include "base/process.h"
#include "bridge/prefill_request.h"
#include "capture/capture_maker.h"
#include "handoff/sender.h"
#include "kernels/rung.h"
#include "net/url.h"
#include "prefill/http_decoder_directory.h"
#include "prefill/native_prompt_engine.h"
#include "prefill/prefill_server.h"
#include "prefill/producer.h"

namespace isthmus {
namespace {

struct PrefillOptions {
  CommonOptions common;
  NetworkOptions network;
  uint16_t port = 8000;
  std::vector<std::string> decoders;
  PromptWeightFlags prompt_weights;
  PromptEngineOptions engine;
  bool project_again = false;
  std::filesystem::path record;
  uint64_t record_mib = 1024;
};

Result<DecoderDirectoryOptions> directory_options(const PrefillOptions& o, const std::string& token) {
  DecoderDirectoryOptions d;
  d.tls = o.network.tls;
  for (const std::string& text : o.decoders) {
    ASSIGN_OR_RETURN(Url url, parse_url(text));
    d.decoders.push_back(Peer{std::move(url), token});
  }
  return d;
}

PrefillServerOptions server_options(const PrefillOptions& o, const std::string& token, const LoadedModel& m,
                                    const NativePromptEngine& engine, Identity producer) {
  PrefillServerOptions s;
  s.http.address = o.network.bind;
  s.http.tls = o.network.tls;
  s.origin.allowed_hosts = o.network.hosts;
  s.origin.allowed_hosts.push_back(o.network.bind);
  s.http.port = o.port;
  s.auth_token = token;
  s.model = m.name;
  s.producer = std::move(producer);
  s.limits = {m.model->config().vocab, engine.max_tokens()};
  s.tokens_per_s = [&engine] { return engine.stats().tokens_per_s; };
  return s;
}

Result<std::unique_ptr<handoff::Recorder>> open_recorder(const PrefillOptions& o) {
  if (o.record.empty()) return std::unique_ptr<handoff::Recorder>();
  return handoff::Recorder::create(o.record, o.record_mib << 20);
}

Status serve_prefills(const PrefillOptions& o) {
  ASSIGN_OR_RETURN(const std::string token, read_token(o.common.token_file));
  TRY(check_exposure(o.network, token));
  ASSIGN_OR_RETURN(const LoadedModel m, load_model(o.common, o.prompt_weights, o.engine.chunk_tokens));
  const Identity producer = producer_identity(
      m.model->config(),
      {m.weights, prompt_arithmetic(m.prompt_weights), kernels::rung_name(kernels::active_rung())});
  ASSIGN_OR_RETURN(const auto engine, NativePromptEngine::create(*m.model, producer.digest, o.engine));
  ASSIGN_OR_RETURN(DecoderDirectoryOptions d, directory_options(o, token));
  ASSIGN_OR_RETURN(const auto decoders, HttpDecoderDirectory::create(std::move(d)));
  ASSIGN_OR_RETURN(const auto recorder, open_recorder(o));
  handoff::SenderOptions sender_options;
  sender_options.token = token;
  sender_options.recorder = recorder.get();
  handoff::Sender sender(sender_options);
  CaptureMaker captures(m.model->config(), m.projection,
                        o.project_again ? SameProjection::kProjectAgain : SameProjection::kTakeEngineRows);

  PrefillRequestHandler handler(
      {*engine, *decoders, sender,
       [&captures](const PrefillCall& call, const DecoderInfo& decoder, OutgoingTransfer& sink) {
         return captures.make(call, decoder, sink);
       }});
  ASSIGN_OR_RETURN(const auto server,
                   PrefillServer::start(server_options(o, token, m, *engine, producer), handler));
  std::puts(dump_json({{"ready", true}, {"role", "prefill"}, {"port", server->port()}}).c_str());
  std::fflush(stdout);
  log_info("prefill engine on {}:{}", o.network.bind, server->port());
  wait_for_end_signal();
  server->stop();
  return {};
}

int run_prefill(const PrefillOptions& o) {
  if (const Status s = prepare_process("prefill", o.common); !s.ok()) return fail(s);
  const Status ended = serve_prefills(o);
  return ended.ok() ? 0 : fail(ended);
}

}  // namespace

Command add_prefill(CLI::App& parent) {
  auto o = std::make_shared<PrefillOptions>();
  CLI::App* app = parent.add_subcommand("prefill", "run the prefill engine (the compute box)");
  add_common_options(*app, o->common);
  app->add_option("--decoder", o->decoders,
                  "URL of a decoder that may ask for prefills; nothing is ever sent elsewhere (repeatable)")
      ->required();
  add_network_options(*app, o->network);
  app->add_option("--port", o->port, "port; 0: a free one")->capture_default_str();
  add_prompt_weight_options(*app, o->prompt_weights);
  app->add_option("--chunk", o->engine.chunk_tokens, "prompt tokens a turn: smaller answers others sooner")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--kv-tokens", o->engine.kv_tokens,
                  "tokens of cache for running and remembered prompts; 0: four contexts")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app->add_flag(
      "--project-again", o->project_again,
      "recompute the decoder's rows even when both sides have the same projection (same bits, slower)");
  app->add_option("--record", o->record,
                  "folder that keeps each transfer's frames as TRANSFER.ish, for isthmus inspect");
  app->add_option("--record-mib", o->record_mib, "size of that folder; transfers beyond it are not recorded")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->capture_default_str();
  return {app, [o] { return run_prefill(*o); }};
}

}  // namespace isthmus
