// SPDX-License-Identifier: Apache-2.0
#include "apps/eval_bridge.h"

#include <memory>
#include <utility>
#include <vector>

#include "apps/loaded_model.h"
#include "decode/block_rows.h"
#include "model/projection_pack.h"
#include "model/teacher_forced.h"

namespace isthmus {
namespace {

constexpr int kBlockTokens = 256;

// The decode box's end: blocks become rows as they arrive.
class SequenceSink final : public OutgoingTransfer {
 public:
  SequenceSink(const PlaneLayout& layout, Sequence& seq) : layout_(layout), seq_(seq) {}

  Status put(int64_t first, int64_t last, Bytes planes) override {
    return append_rows(layout_, first, last, planes, last, seq_);
  }
  Status seal(int64_t last) override {
    if (last == seq_.length()) return {};
    return {Code::kInternal,
            "eval: sealed at " + std::to_string(last) + " with " + std::to_string(seq_.length()) + " rows"};
  }
  void abort(const Status&) override {}
  bool has_room() const override { return true; }

 private:
  const PlaneLayout& layout_;
  Sequence& seq_;
};

// One run of the model for several captures.
class CaptureFan final : public LayerTap {
 public:
  void add(std::unique_ptr<Capture> capture) { captures_.push_back(std::move(capture)); }

  void on_layer_input(int layer, int64_t first, int64_t n, const float* x) override {
    for (const auto& c : captures_) c->on_layer_input(layer, first, n, x);
  }
  void on_kv(int layer, int64_t first, int64_t n, const float* k, const float* v) override {
    for (const auto& c : captures_) c->on_kv(layer, first, n, k, v);
  }
  Status chunk_done(int64_t position) {
    for (const auto& c : captures_) TRY(c->chunk_done(position));
    return {};
  }
  Status seal() {
    for (const auto& c : captures_) TRY(c->seal());
    return {};
  }

 private:
  std::vector<std::unique_ptr<Capture>> captures_;
};

}  // namespace

Result<DecoderInfo> decoder_info(const Model& decoder, const std::string& name) {
  DecoderInfo info;
  info.url = name;
  ASSIGN_OR_RETURN(const Digest projection, projection_digest(decoder.checkpoint()));
  // More of the identity than the captures read would only cost time here: nothing is stored.
  info.identity = Identity::of({{"decoder", name}, {"projection", projection.hex()}});
  info.layout = layout_of(decoder, kBlockTokens);
  ASSIGN_OR_RETURN(Bytes pack, export_projection(decoder.checkpoint()));
  info.projection_pack = std::make_shared<const Bytes>(std::move(pack));
  return info;
}

Status bridge_prompt(Model& prefill, CaptureMaker& maker, std::span<const TokenId> ids, Sequence& own,
                     std::span<const BridgeTarget> targets) {
  std::vector<std::unique_ptr<SequenceSink>> sinks;
  CaptureFan fan;
  for (const BridgeTarget& t : targets) {
    PrefillCall call;
    call.ids.assign(ids.begin(), ids.end());
    call.mode = t.mode;
    sinks.push_back(std::make_unique<SequenceSink>(t.decoder->layout, *t.rows));
    ASSIGN_OR_RETURN(std::unique_ptr<Capture> capture, maker.make(call, *t.decoder, *sinks.back()));
    fan.add(std::move(capture));
  }
  TRY(read_prompt(prefill, ids.first(ids.size() - 1), own, &fan, kChunkTokens,
                  [&fan](int64_t position) { return fan.chunk_done(position); }));
  return fan.seal();
}

}  // namespace isthmus
