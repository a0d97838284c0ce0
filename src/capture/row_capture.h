// SPDX-License-Identifier: Apache-2.0
// The two captures of plain attention: K/V rows as the prefill engine computed them (KvCapture), and layer
// inputs through the decoder's own projection (ProjectCapture). Both round rows once to the decoder's cache
// dtype and ship whole blocks while the run goes on. Threads as flow's Capture. Not for hybrid models.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "capture/block_assembler.h"
#include "flow/prompt_engine.h"
#include "model/projection_pack.h"

namespace isthmus {

// What both share: everything after the rows are known.
class RowCapture : public Capture {
 public:
  // `sink` is the assembler's, and outlives the capture.
  RowCapture(BlockAssembler assembler, const OutgoingTransfer& sink)
      : assembler_(std::move(assembler)), sink_(sink) {}

  Status chunk_done(int64_t position) override { return assembler_.chunk_done(position); }
  bool has_room() const override { return sink_.has_room(); }
  Status seal() override { return assembler_.seal(); }
  int64_t shipped_tokens() const override { return assembler_.shipped_tokens(); }

 protected:
  BlockAssembler assembler_;

 private:
  const OutgoingTransfer& sink_;
};

class KvCapture final : public RowCapture {
 public:
  using RowCapture::RowCapture;
  void on_layer_input(int, int64_t, int64_t, const float*) override {}
  void on_kv(int layer, int64_t first, int64_t n, const float* k, const float* v) override {
    assembler_.add(layer, first, n, k, v);
  }
};

class ProjectCapture final : public RowCapture {
 public:
  // Rows below `first` are not computed.
  ProjectCapture(BlockAssembler assembler, const OutgoingTransfer& sink,
                 std::shared_ptr<const ProjectionPack> pack, int64_t first)
      : RowCapture(std::move(assembler), sink), pack_(std::move(pack)), first_(first) {}

  void on_layer_input(int layer, int64_t first, int64_t n, const float* x) override;
  void on_kv(int, int64_t, int64_t, const float*, const float*) override {}

 private:
  const std::shared_ptr<const ProjectionPack> pack_;
  const int64_t first_;
  KvProjection::Scratch scratch_;
  std::vector<float> k_, v_;  // [n, Hk * D] of the current layer
};

}  // namespace isthmus
