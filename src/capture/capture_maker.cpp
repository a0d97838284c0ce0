// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_maker.h"

#include <utility>

#include "base/json.h"
#include "capture/block_assembler.h"
#include "capture/row_capture.h"
#include "flow/identity.h"

namespace isthmus {
namespace {

// Packs kept: more decoders than anyone names in one configuration.
constexpr size_t kMaxPacks = 16;

// What both sides must have in common for rows to mean the same. Layer inputs: depth and width. K/V rows:
// their geometry and rotation.
Json common_ground(SourceKind mode, const ModelConfig& c) {
  Json j;
  j["layers"] = c.layers;
  if (mode == SourceKind::kProject) {
    j["width"] = c.width;
  } else {
    j["kv_heads"] = c.kv_heads;
    j["head_dim"] = c.head_dim;
    j["rope"] = rope_json(c.rope);
  }
  return j;
}

Json rows_json(size_t planes, int64_t row_values, DType dtype) {
  return {{"planes", planes}, {"row_values", row_values}, {"dtype", dtype_info(dtype).name}};
}

// `layout` has native planes: the assembler took it.
Status check_layout(const PlaneLayout& layout, const ModelConfig& decoder) {
  const PlaneSpec& plane = layout.planes[0];
  const std::string difference =
      first_difference(rows_json(2 * static_cast<size_t>(decoder.layers), decoder.kv_width(), DType::kBF16),
                       rows_json(layout.planes.size(), plane.row_values, plane.dtype));
  if (difference.empty()) return {};
  return {Code::kMismatch,
          "capture: the decoder's projection (here) and layout (there) differ in " + difference};
}

}  // namespace

Result<CaptureMaker::PackPtr> CaptureMaker::pack_of(const DecoderInfo& decoder) {
  {
    MutexLock lock(mutex_);
    const auto it = packs_.find(decoder.identity.digest);
    if (it != packs_.end()) return it->second;
  }
  if (decoder.projection_pack == nullptr) {
    return Status(Code::kNotFound, "capture: decoder " + decoder.url + " has no projection pack");
  }
  ASSIGN_OR_RETURN(ProjectionPack loaded,
                   load_projection_pack(*decoder.projection_pack, "projection pack of " + decoder.url));
  ASSIGN_OR_RETURN(const std::string stated, get_string(decoder.identity.fields, "projection", "identity"));
  if (stated != loaded.digest.hex()) {
    return Status(Code::kMismatch, "capture: projection: the decoder's identity says " +
                                       stated.substr(0, 64) + ", its pack has " + loaded.digest.hex());
  }
  auto pack = std::make_shared<const ProjectionPack>(std::move(loaded));
  MutexLock lock(mutex_);
  if (packs_.size() >= kMaxPacks) packs_.clear();
  packs_[decoder.identity.digest] = pack;
  return pack;
}

Status CaptureMaker::check(const PrefillCall& call, const DecoderInfo& decoder,
                           const ProjectionPack& pack) const {
  if (call.mode == SourceKind::kNative) {
    return {Code::kInvalidArgument, "capture: mode: expected kv or project, got native"};
  }
  const std::string difference =
      first_difference(common_ground(call.mode, prefill_), common_ground(call.mode, pack.config));
  if (!difference.empty()) {
    return {Code::kMismatch, "capture: " + std::string(source_kind_name(call.mode)) +
                                 ": prefill model (here) and decoder (there) differ in " + difference};
  }
  const auto rows = static_cast<int64_t>(call.ids.size()) - 1;
  if (rows > pack.config.max_positions) {
    return {Code::kInvalidArgument, "capture: ids: expected at most " +
                                        std::to_string(pack.config.max_positions + 1) +
                                        " tokens for this decoder, got " + std::to_string(call.ids.size())};
  }
  return check_layout(decoder.layout, pack.config);
}

Result<std::unique_ptr<Capture>> CaptureMaker::make(const PrefillCall& call, const DecoderInfo& decoder,
                                                    OutgoingTransfer& sink) {
  ASSIGN_OR_RETURN(BlockAssembler assembler,
                   BlockAssembler::create(decoder.layout, call.resume_from,
                                          static_cast<int64_t>(call.ids.size()) - 1, sink));
  ASSIGN_OR_RETURN(PackPtr pack, pack_of(decoder));
  TRY(check(call, decoder, *pack));
  const bool engine_rows = call.mode == SourceKind::kKv ||
                           (pack->digest == own_projection_ && same_ == SameProjection::kTakeEngineRows);
  if (engine_rows) return std::unique_ptr<Capture>(std::make_unique<KvCapture>(std::move(assembler), sink));
  return std::unique_ptr<Capture>(
      std::make_unique<ProjectCapture>(std::move(assembler), sink, std::move(pack), call.resume_from));
}

}  // namespace isthmus
