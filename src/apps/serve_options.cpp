// SPDX-License-Identifier: Apache-2.0
#include "apps/serve_options.h"

namespace isthmus {
namespace {

void add_front_options(CLI::App& app, ServeOptions& o) {
  add_network_options(app, o.network);
  app.add_option("--port", o.port, "port of the OpenAI API; 0: a free one")->capture_default_str();
  app.add_option("--alias", o.aliases, "another name that requests may use for the model (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--temperature", o.temperature, "of requests that name none")
      ->check(finite_range(0.0, 2.0))
      ->capture_default_str();
}

void add_bridge_options(CLI::App& app, ServeOptions& o) {
  app.add_option("--prefill", o.prefill_url, "URL of the prefill engine; absent: a decode server on its own");
  app.add_option("--handoff-port", o.handoff_port, "port where finished cache arrives; 0: a free one")
      ->capture_default_str();
  app.add_option("--capture", o.capture,
                 "project: layer inputs through this decoder's weights; kv: the prefill engine's own rows")
      ->check(CLI::IsMember({"project", "kv"}))
      ->capture_default_str();
  app.add_option("--min-tokens", o.limits.min_tokens,
                 "shorter prompts are not bridged: a round trip costs more than it saves")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--min-tail", o.limits.min_tail, "fewer uncached tokens are computed here")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--min-coverage", o.limits.min_coverage,
                 "a cut bridge that brought less of the prompt counts as declined")
      ->check(finite_range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--early-stream-after", o.early_stream_after_s,
                 "seconds of bridging after which a stream starts with progress comments")
      ->check(finite_range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--stall-timeout", o.stall_timeout_s,
                 "seconds of silence from the prefill engine after which a bridge is given up")
      ->check(finite_range(0.1, 86400.0))
      ->capture_default_str();
}

void add_store_options(CLI::App& app, ServeOptions& o) {
  app.add_option("--store", o.store, "folder of the SSD block store; absent: memory only");
  app.add_option("--block-tokens", o.block_tokens,
                 "tokens per block: smaller reuses more of a changed prompt, larger has fewer files")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  const CLI::Range mib(uint64_t{0}, uint64_t{1} << 40);
  app.add_option("--ram-store-mib", o.ram_store_mib, "memory for cached blocks")
      ->check(mib)
      ->capture_default_str();
  app.add_option("--disk-quota-mib", o.disk_quota_mib,
                 "disk for cached blocks; those of other models go first, then the oldest")
      ->check(mib)
      ->capture_default_str();
  app.add_option("--disk-floor-mib", o.disk_floor_mib, "blocks are not written while less would stay free")
      ->check(mib)
      ->capture_default_str();
  app.add_option("--memory-floor-mib", o.memory_floor_mib,
                 "blocks are not taken while less memory is available")
      ->check(mib)
      ->capture_default_str();
}

void add_engine_options(CLI::App& app, ServeOptions& o) {
  add_prompt_weight_options(app, o.prompt_weights);
  app.add_option("--chunk", o.engine.chunk_tokens,
                 "prompt tokens between two decode steps: smaller keeps running answers smoother")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--kv-tokens", o.engine.kv_tokens, "tokens of cache for running requests; 0: eight contexts")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--max-rows", o.engine.max_rows, "answers decoded in one step")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  // For tests: 1 proves that everything but the last prompt token came from blocks. Not shown in --help.
  app.add_option("--test-max-prompt-compute", o.engine.max_computed_prompt_tokens)->group("");
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& o) {
  add_common_options(app, o.common);
  add_front_options(app, o);
  add_bridge_options(app, o);
  add_store_options(app, o);
  add_engine_options(app, o);
}

}  // namespace isthmus
