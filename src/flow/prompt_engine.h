// SPDX-License-Identifier: Apache-2.0
// The prefill box's stages as its spine (bridge/prefill_request.cpp) sees them: the engine that computes
// prompts, the capture that turns what it sees into the decoder's planes, and what is known of a decoder.
// Thread rules per class.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "base/token.h"
#include "flow/identity.h"
#include "flow/plane.h"
#include "flow/prefill_engine.h"
#include "flow/transfer.h"
#include "model/layer_tap.h"

namespace isthmus {

// One capture of one prompt. The engine thread calls the tap and chunk_done; the spine's thread calls seal,
// after the run.
class Capture : public LayerTap {
 public:
  // Every layer of tokens up to `position` has passed the tap: finished boundaries go to the sink now. An
  // error ends the run.
  virtual Status chunk_done(int64_t position) = 0;
  // False while the sink's window is full: the engine computes other prompts meanwhile.
  virtual bool has_room() const = 0;
  // Ships the rows after the last boundary and seals. Rows shipped: [S, last).
  virtual Status seal() = 0;
  virtual int64_t shipped_tokens() const = 0;
};

// Computes prompts. Any thread may call run(); one thread owns the model. Several runs share it chunk by
// chunk.
class PromptEngine {
 public:
  virtual ~PromptEngine() = default;
  // Prompt arithmetic on ids[0, T - 1), rows from `resume_from` on shown to `capture`. Starts at the longest
  // prefix <= resume_from of the engine's own cache. Blocks until done. Errors: kInvalidArgument (too long),
  // kCancelled, kResourceExhausted, the capture's.
  virtual Result<PrefillReport> run(std::span<const TokenId> ids, int64_t resume_from, Capture& capture,
                                    std::stop_token cancel) = 0;
  virtual const Digest& producer()
      const = 0;  // identity of weights and arithmetic: the label of what it computes
};

// What a decoder published and we checked.
struct DecoderInfo {
  std::string url;       // as configured
  std::string instance;  // of the running process: tells decoders of one identity apart
  Identity identity;
  PlaneLayout layout;
  std::shared_ptr<const Bytes>
      projection_pack;  // safetensors: norm, K, V weights and RoPE (model/projection_pack.h)
  std::string handoff_host;
  uint16_t handoff_port = 0;
};

// The decoders named in our own configuration, never one named by a request. Any thread.
class DecoderDirectory {
 public:
  virtual ~DecoderDirectory() = default;
  // Fetched on first contact, kept until the decoder's identity changes. Errors: kNotFound (no configured
  // decoder has this identity; says what they have), kUnavailable, kMismatch. `instance` picks one of several
  // with this identity; empty: the first.
  virtual Result<std::shared_ptr<const DecoderInfo>> find(const Digest& identity,
                                                          const std::string& instance) = 0;
};

// What the prefill server does with a call it received. Any thread; blocks until the prompt is read and
// shipped.
class PrefillHandler {
 public:
  virtual ~PrefillHandler() = default;
  virtual Result<PrefillReport> prefill(const PrefillCall& call, std::stop_token cancel) = 0;
};

}  // namespace isthmus
