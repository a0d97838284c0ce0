// SPDX-License-Identifier: Apache-2.0
// The projection pack: the part of a decoder that turns layer inputs into its finished K/V rows (input norms,
// K/V weights, biases, k norms, RoPE), as one safetensors buffer that a decode engine publishes and a prefill
// engine loads. Format: docs/formats/projection-pack.md. Pure functions; any thread. Not the decoder's
// identity: that covers every weight.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "model/checkpoint.h"
#include "model/kv_projection.h"
#include "model/rope_table.h"

namespace isthmus {

inline constexpr std::string_view kProjectionPackFormat = "isthmus-projection";
inline constexpr int kProjectionPackVersion = 1;

// Equal models give equal bytes.
Result<Bytes> export_projection(const Checkpoint& checkpoint);
// The digest that the pack of this model carries.
Result<Digest> projection_digest(const Checkpoint& checkpoint);

struct ProjectionPack {
  ModelConfig config;  // layers, width, kv_heads, head_dim, norm_eps, rope, max_positions, biases and norms;
                       // nothing else
  RopeTable rope;
  std::vector<KvProjection> layers;
  Digest digest;  // of what was loaded: compare it with the decoder's
};

// `where` starts every message. Errors: kCorrupt, kUnsupported (format, version), kMismatch (content does not
// have the digest that the pack states), kResourceExhausted.
Result<ProjectionPack> load_projection_pack(std::span<const std::byte> bytes, std::string_view where);

}  // namespace isthmus
