// SPDX-License-Identifier: Apache-2.0
// isthmus serve: the decode box. Front door, decision, handoff receiver, block store and native decode engine
// in one process.
#include <cstdio>
#include <memory>

#include "apps/loaded_model.h"
#include "apps/serve_options.h"
#include "apps/serve_stats.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "bridge/serve_request.h"
#include "front/front.h"
#include "handoff/receiver.h"
#include "model/projection_pack.h"
#include "net/url.h"
#include "prefill/http_prefill_engine.h"
#include "store/block_store.h"

namespace isthmus {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;

std::chrono::milliseconds millis(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// Objects in the order in which they depend on one another; destroyed in reverse.
struct DecodeBox {
  LoadedModel model;
  std::unique_ptr<ModelText> text;
  Identity identity;
  Bytes projection;
  std::unique_ptr<BlockStore> store;
  std::unique_ptr<NativeEngine> engine;
  std::unique_ptr<HttpPrefillEngine> prefill;   // with --prefill
  std::unique_ptr<handoff::Receiver> receiver;  // with --prefill
  BridgeCounters counters;
  const std::string instance = random_hex(8);
  std::unique_ptr<ServeHandler> handler;
  std::unique_ptr<Front> front;
};

Status load(const ServeOptions& o, DecodeBox& box) {
  ASSIGN_OR_RETURN(box.model, load_model(o.common, o.prompt_weights, o.engine.chunk_tokens));
  ASSIGN_OR_RETURN(ModelText text, load_text(o.common.model));
  box.text = std::make_unique<ModelText>(std::move(text));
  const PlaneLayout layout = layout_of(*box.model.model, o.block_tokens);
  box.identity = native_identity(box.model, box.text->tokenizer, layout);
  ASSIGN_OR_RETURN(box.projection, export_projection(box.model.model->checkpoint()));
  return {};
}

Status open_store(const ServeOptions& o, SourceKind mode, DecodeBox& box) {
  BlockStoreOptions s;
  s.ram_bytes = o.ram_store_mib * kMib;
  s.directory = o.store;
  s.disk_quota_bytes = o.disk_quota_mib * kMib;
  s.disk_floor_bytes = o.disk_floor_mib * kMib;
  s.memory_floor_bytes = o.memory_floor_mib * kMib;
  s.accepted = {SourceKind::kNative, mode};
  ASSIGN_OR_RETURN(box.store, BlockStore::create(std::move(s), layout_of(*box.model.model, o.block_tokens),
                                                 box.identity.digest));
  return {};
}

Status open_bridge(const ServeOptions& o, const std::string& token, DecodeBox& box) {
  if (o.prefill_url.empty()) return {};
  HttpPrefillEngineOptions p;
  ASSIGN_OR_RETURN(p.peer.url, parse_url(o.prefill_url));
  p.peer.token = token;
  p.tls = o.network.tls;
  ASSIGN_OR_RETURN(box.prefill, HttpPrefillEngine::create(std::move(p)));
  handoff::ReceiverOptions r;
  r.bind_address = o.network.bind;
  r.port = o.handoff_port;
  r.token = token;
  r.memory_floor_bytes = o.memory_floor_mib * kMib;
  ASSIGN_OR_RETURN(box.receiver, handoff::Receiver::start(std::move(r)));
  return {};
}

// Once and at the start: later only the verdicts of single requests show it.
void warn_of_small_store(const ServeOptions& o, const DecodeBox& box) {
  const int64_t context = box.engine->context_tokens();
  const int64_t room = box.store->storable_tokens(context);
  if (o.prefill_url.empty() || room == context) return;
  const TierBytes need = box.store->chain_bytes(context);
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes + kMib - 1) / kMib); };
  log_warn(
      "the store has room for {} tokens of one prompt, the context is {}: a longer prompt is bridged in "
      "part or not at all; a whole one needs --ram-store-mib {}{}",
      room, context, mib(need.ram), o.store.empty() ? "" : " or --disk-quota-mib " + mib(need.disk));
}

BridgeOptions bridge_options(const ServeOptions& o, SourceKind mode, const std::string& instance) {
  BridgeOptions b;
  b.mode = mode;
  b.instance = instance;
  b.limits = o.limits;
  b.stall_timeout = millis(o.stall_timeout_s);
  b.early_stream_after = millis(o.early_stream_after_s);
  return b;
}

FrontOptions front_options(const ServeOptions& o, const std::string& token, const DecodeBox& box) {
  FrontOptions f;
  f.http.address = o.network.bind;
  f.http.tls = o.network.tls;
  f.allowed_hosts = o.network.hosts;
  f.http.port = o.port;
  f.model_names = {box.model.name};
  f.model_names.insert(f.model_names.end(), o.aliases.begin(), o.aliases.end());
  f.token = token;
  f.sampling.temperature = o.temperature;
  f.capture_mode = o.capture;
  return f;
}

Json published_identity(const DecodeBox& box) {
  Json j = {{"identity", {{"digest", box.identity.digest.hex()}, {"fields", box.identity.fields}}},
            {"instance", box.instance},
            {"layout", box.store->layout().to_json()}};
  if (box.receiver) j["handoff_port"] = box.receiver->port();
  return j;
}

Json stats_of(const DecodeBox& box) {
  const auto handoff = box.receiver ? std::optional(box.receiver->stats()) : std::nullopt;
  return serve_stats({box.engine->stats(), box.store->stats(), box.counters.values(), handoff});
}

Status open_front(const ServeOptions& o, const std::string& token, SourceKind mode, DecodeBox& box) {
  ServeStages stages{*box.store,         *box.engine,  box.prefill.get(),
                     box.receiver.get(), box.counters, bridge_options(o, mode, box.instance)};
  box.handler = std::make_unique<ServeHandler>(stages);
  const auto& chat = box.text->chat_template;
  FrontDeps deps(*box.handler, box.text->tokenizer);
  deps.chat_template = chat ? &*chat : nullptr;
  deps.context_tokens = box.engine->context_tokens();
  deps.end_ids = box.text->tokenizer.end_ids();
  deps.identity = published_identity(box);
  deps.projection = box.projection;
  deps.stats = [&box] { return stats_of(box); };
  ASSIGN_OR_RETURN(box.front, Front::start(front_options(o, token, box), std::move(deps)));
  return {};
}

Status serve(ServeOptions& o) {
  ASSIGN_OR_RETURN(const std::string token, read_token(o.common.token_file));
  TRY(check_exposure(o.network, token));
  ASSIGN_OR_RETURN(const SourceKind mode, parse_source_kind(o.capture));
  DecodeBox box;
  TRY(load(o, box));
  TRY(open_store(o, mode, box));
  o.engine.threads = o.common.threads;
  ASSIGN_OR_RETURN(box.engine, NativeEngine::create(*box.model.model, *box.store, o.engine));
  TRY(open_bridge(o, token, box));
  warn_of_small_store(o, box);
  TRY(open_front(o, token, mode, box));

  Json ready = {{"ready", true}, {"role", "serve"}, {"port", box.front->port()}};
  if (box.receiver) ready["handoff_port"] = box.receiver->port();
  std::puts(dump_json(ready).c_str());
  std::fflush(stdout);
  log_info("{} on http://{}:{}{}", box.model.name, o.network.bind, box.front->port(),
           o.prefill_url.empty() ? "" : ", prefill engine " + o.prefill_url);
  wait_for_end_signal();
  box.front->stop();
  return {};
}

int run_serve(ServeOptions& o) {
  if (const Status s = prepare_process("serve", o.common); !s.ok()) return fail(s);
  const Status ended = serve(o);
  return ended.ok() ? 0 : fail(ended);
}

}  // namespace

Command add_serve(CLI::App& parent) {
  auto o = std::make_shared<ServeOptions>();
  CLI::App* app = parent.add_subcommand("serve", "run the decode server (the box that answers)");
  add_serve_options(*app, *o);
  return {app, [o] { return run_serve(*o); }};
}

}  // namespace isthmus
