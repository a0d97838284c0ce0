// SPDX-License-Identifier: Apache-2.0
#include "capture/block_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"

namespace isthmus {
namespace {

Status check_planes(const PlaneLayout& layout) {
  if (layout.planes.empty()) return {Code::kUnsupported, "capture: the layout has no planes"};
  const DType dtype = layout.planes[0].dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF32) {
    return {Code::kUnsupported, "capture: plane '" + layout.planes[0].name +
                                    "': expected bf16 or f32 rows, got " +
                                    std::string(dtype_info(dtype).name)};
  }
  const int layers = static_cast<int>((layout.planes.size() + 1) / 2);
  const PlaneLayout native = native_layout(layers, layout.planes[0].row_values, layout.block_tokens, dtype);
  for (size_t i = 0; i < native.planes.size(); ++i) {
    if (i < layout.planes.size() && layout.planes[i] == native.planes[i]) continue;
    const std::string got = i < layout.planes.size()
                                ? "'" + layout.planes[i].name + "' (" +
                                      std::string(plane_kind_name(layout.planes[i].kind)) + ", " +
                                      std::to_string(layout.planes[i].row_values) + " values of " +
                                      std::string(dtype_info(layout.planes[i].dtype).name) + ")"
                                : "nothing";
    return {Code::kUnsupported, "capture: expected plane '" + native.planes[i].name + "' (token_rows, " +
                                    std::to_string(native.planes[i].row_values) + " values of " +
                                    std::string(dtype_info(dtype).name) + "), got " + got};
  }
  return {};
}

}  // namespace

Result<BlockAssembler> BlockAssembler::create(const PlaneLayout& layout, int64_t first, int64_t last,
                                              RowSink& sink) {
  TRY(check_planes(layout));
  if (first < 0 || first > last || first % layout.block_tokens != 0) {
    return Status(Code::kInvalidArgument, "capture: resume_from: expected a multiple of " +
                                              std::to_string(layout.block_tokens) + " up to " +
                                              std::to_string(last) + ", got " + std::to_string(first));
  }
  return BlockAssembler(layout, first, last, sink);
}

BlockAssembler::BlockAssembler(PlaneLayout layout, int64_t first, int64_t last, RowSink& sink)
    : layout_(std::move(layout)),
      first_(first),
      last_(last),
      sink_(&sink),
      next_(layout_.planes.size() / 2, first),
      open_to_(first),
      put_to_(first) {}

int64_t BlockAssembler::block_end(int64_t token) const {
  return std::min(last_, (token / layout_.block_tokens + 1) * layout_.block_tokens);
}

size_t BlockAssembler::held_bytes() const {
  size_t total = 0;
  for (const Bytes& b : open_) total += b.size();
  return total;
}

void BlockAssembler::open_blocks(int64_t end) {
  while (open_to_ < end) {
    const int64_t block_to = block_end(open_to_);
    open_.emplace_back(layout_.block_bytes(open_to_, block_to));
    open_to_ = block_to;
  }
}

void BlockAssembler::add(int layer, int64_t first, int64_t n, const float* k, const float* v) {
  const int64_t from = std::max(first, first_), to = std::min(first + n, last_);
  if (!error_.ok() || from >= to) return;
  if (layer < 0 || static_cast<size_t>(layer) >= next_.size()) {
    error_ = Status(Code::kInternal, "capture: expected layers 0 to " + std::to_string(next_.size() - 1) +
                                         ", got " + std::to_string(layer));
    return;
  }
  int64_t& next = next_[static_cast<size_t>(layer)];
  if (from != next) {
    error_ = Status(Code::kInternal, "capture: layer " + std::to_string(layer) + ": expected row " +
                                         std::to_string(next) + ", got " + std::to_string(from));
    return;
  }
  open_blocks(to);
  const int64_t skip = (from - first) * layout_.planes[0].row_values;
  copy(static_cast<size_t>(layer) * 2, from, to - from, k + skip);
  copy(static_cast<size_t>(layer) * 2 + 1, from, to - from, v + skip);
  next = to;
}

// rows: [n, row_values], all within the open blocks.
void BlockAssembler::copy(size_t plane, int64_t first, int64_t n, const float* rows) {
  const PlaneSpec& spec = layout_.planes[plane];
  int64_t block_from = put_to_;
  for (Bytes& block : open_) {
    const int64_t block_to = block_end(block_from);
    const int64_t from = std::max(first, block_from), to = std::min(first + n, block_to);
    if (from < to) {
      // All planes have rows of one size.
      const int64_t row = static_cast<int64_t>(plane) * (block_to - block_from) + from - block_from;
      std::byte* out = block.data() + static_cast<size_t>(row) * spec.row_bytes();
      const float* in = rows + (from - first) * spec.row_values;
      const int64_t count = (to - from) * spec.row_values;
      if (spec.dtype == DType::kBF16) {
        kernels::round_to_bf16(in, count, reinterpret_cast<bf16*>(out));
      } else {
        std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
      }
    }
    block_from = block_to;
  }
}

Status BlockAssembler::chunk_done(int64_t position) {
  if (!error_.ok()) return error_;
  const int64_t expected = std::clamp(position, first_, last_);
  for (size_t layer = 0; layer < next_.size(); ++layer) {
    if (next_[layer] == expected) continue;
    error_ = Status(Code::kInternal, "capture: layer " + std::to_string(layer) + ": expected rows up to " +
                                         std::to_string(expected) + ", got them up to " +
                                         std::to_string(next_[layer]));
    return error_;
  }
  error_ = put_finished(expected);
  return error_;
}

// Blocks of whole size that end at `position` or before. The partial tail waits for seal().
Status BlockAssembler::put_finished(int64_t position) {
  while (put_to_ + layout_.block_tokens <= position) {
    const int64_t to = put_to_ + layout_.block_tokens;
    TRY(sink_->put(put_to_, to, std::move(open_.front())));
    open_.pop_front();
    put_to_ = to;
  }
  return {};
}

Status BlockAssembler::seal() {
  if (!error_.ok()) return error_;
  const bool all = std::all_of(next_.begin(), next_.end(), [this](int64_t n) { return n == last_; });
  if (all && !open_.empty()) {
    TRY(put_finished(last_));
    if (!open_.empty()) TRY(sink_->put(put_to_, last_, std::move(open_.front())));
    put_to_ = last_;
  }
  open_.clear();
  return sink_->seal(put_to_);
}

}  // namespace isthmus
