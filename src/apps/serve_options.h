// SPDX-License-Identifier: Apache-2.0
// The options of `isthmus serve`, each with the reason for its default in its help text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/command.h"
#include "bridge/stages.h"
#include "decode/native_engine.h"

namespace isthmus {

struct ServeOptions {
  CommonOptions common;
  NetworkOptions network;
  uint16_t port = 8012;
  std::vector<std::string> aliases;
  double temperature = 0.7;
  // the bridge
  std::string prefill_url;
  uint16_t handoff_port = 8021;
  std::string capture = "project";
  double early_stream_after_s = 10;
  double stall_timeout_s = 60;
  BridgeLimits limits;
  // the store
  std::filesystem::path store;
  int block_tokens = 256;
  uint64_t ram_store_mib = 1024;
  uint64_t disk_quota_mib = 20 * 1024;
  uint64_t disk_floor_mib = 2 * 1024;
  uint64_t memory_floor_mib = 1024;
  // the engine
  PromptWeightFlags prompt_weights;
  NativeEngineOptions engine;
};

void add_serve_options(CLI::App& app, ServeOptions& o);

}  // namespace isthmus
