// SPDX-License-Identifier: Apache-2.0
// Repacks the file's blocks into the tiles of step_layout.h, bit for bit: codes and scales are moved, never
// rounded.
#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/parallel.h"
#include "kernels/step_layout.h"

namespace isthmus::kernels {
namespace {

constexpr int64_t kValuesPerThread = 1 << 16;

// A super-block of one row in the form that is scattered into a tile: codes, and the scale section's fields
// in order.
struct RowBlock {
  uint8_t codes[256] = {};
  uint16_t halves[2] = {};  // f16 d, then m or dmin
  uint8_t bytes[16] = {};   // sc then mn, sc of half blocks, or e
};

uint8_t byte_at(const std::byte* p, int i) {
  return static_cast<uint8_t>(p[i]);
}
uint16_t half_at(const std::byte* p, int i) {
  return static_cast<uint16_t>(byte_at(p, i) | (byte_at(p, i + 1) << 8));
}

// 16 bytes: elements 0..15 in low nibbles, 16..31 in high nibbles.
void decode_nibbles(const std::byte* qs, uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = byte_at(qs, j) & 15;
    codes[j + 16] = byte_at(qs, j) >> 4;
  }
}

void decode_fifth_bits(const std::byte* qh, uint8_t* codes) {
  for (int j = 0; j < 32; ++j) codes[j] |= static_cast<uint8_t>(((byte_at(qh, j / 8) >> (j % 8)) & 1) << 4);
}

// 12 bytes hold eight 6-bit scales and eight 6-bit minima.
void decode_super_scales(const std::byte* packed, uint8_t* scales, uint8_t* minima) {
  for (int j = 0; j < 4; ++j) {
    const uint8_t a = byte_at(packed, j), b = byte_at(packed, j + 4), c = byte_at(packed, j + 8);
    scales[j] = a & 63;
    minima[j] = b & 63;
    scales[j + 4] = static_cast<uint8_t>((c & 15) | ((a >> 6) << 4));
    minima[j + 4] = static_cast<uint8_t>((c >> 4) | ((b >> 6) << 4));
  }
}

void decode_super_min(const std::byte* p, bool fifth, RowBlock* out) {
  out->halves[0] = half_at(p, 0);
  out->halves[1] = half_at(p, 2);
  decode_super_scales(p + 4, out->bytes, out->bytes + 8);
  const std::byte* high = p + 16;
  const std::byte* low = fifth ? p + 48 : p + 16;
  for (int e = 0; e < 256; ++e) {
    const int chunk = e / 64, upper = (e / 32) % 2, l = e % 32;
    int code = (byte_at(low, 32 * chunk + l) >> (4 * upper)) & 15;
    if (fifth) code |= ((byte_at(high, l) >> (e / 32)) & 1) << 4;
    out->codes[e] = static_cast<uint8_t>(code);
  }
}

void decode_q6_k(const std::byte* p, RowBlock* out) {
  const std::byte* high = p + 128;
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = (e / 32) % 4, l = e % 32;
    const int low_bits = byte_at(p, 64 * half + 32 * (quarter % 2) + l) >> (4 * (quarter / 2));
    const int high_bits = byte_at(high, 32 * half + l) >> (2 * quarter);
    out->codes[e] = static_cast<uint8_t>((low_bits & 15) | ((high_bits & 3) << 4));
  }
  std::memcpy(out->bytes, p + 192, 16);
  out->halves[0] = half_at(p, 208);
}

void decode_mxfp4(const std::byte* p, RowBlock* out) {
  out->bytes[0] = byte_at(p, 0);
  decode_nibbles(p + 1, out->codes);
}

void decode_block(DType dtype, const std::byte* p, RowBlock* out) {
  switch (dtype) {
    case DType::kQ4_K:
      return decode_super_min(p, false, out);
    case DType::kQ5_K:
      return decode_super_min(p, true, out);
    case DType::kQ6_K:
      return decode_q6_k(p, out);
    case DType::kMxfp4:
      return decode_mxfp4(p, out);
    default:
      break;
  }
  out->halves[0] = half_at(p, 0);
  const bool minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  if (minimum) out->halves[1] = half_at(p, 2);
  const std::byte* q = p + (minimum ? 4 : 2);
  if (dtype == DType::kQ8_0) {
    for (int j = 0; j < 32; ++j) out->codes[j] = byte_at(q, j) ^ 0x80;
    return;
  }
  const bool fifth = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  decode_nibbles(fifth ? q + 4 : q, out->codes);
  if (fifth) decode_fifth_bits(q, out->codes);
}

// `cells`: the quants of one block of 32; `codes`: its 32 codes of one lane.
void scatter_codes(int code_bits, const uint8_t* codes, int lane, uint8_t* cells) {
  for (int e = 0; e < kStepBlock; ++e) {
    const int group = e / 4, at = 4 * lane + e % 4;
    if (code_bits == 8) {
      cells[64 * group + at] = codes[e];
      continue;
    }
    cells[64 * (group % 4) + at] |= static_cast<uint8_t>((codes[e] & 15) << (4 * (group / 4)));
    if (code_bits == 5) cells[256 + at] |= static_cast<uint8_t>((codes[e] >> 4) << group);
    if (code_bits == 6)
      cells[256 + 64 * (group / 4) + at] |= static_cast<uint8_t>((codes[e] >> 4) << (2 * (group % 4)));
  }
}

void scatter_scales(StepScale scale, const RowBlock& block, int lane, uint8_t* section) {
  const int halves = scale == StepScale::kE8M0 ? 0 : (step_has_minimum(scale) ? 2 : 1);
  const int bytes = scale == StepScale::kE8M0
                        ? 1
                        : (scale == StepScale::kSuperMin || scale == StepScale::kSuperHalf ? 16 : 0);
  for (int i = 0; i < halves; ++i) std::memcpy(section + 32 * i + 2 * lane, &block.halves[i], 2);
  for (int i = 0; i < bytes; ++i) section[32 * halves + 16 * i + lane] = block.bytes[i];
}

void pack_quantized_row(const StepMatrix::Impl& m, const std::byte* row, int lane, uint8_t* tile) {
  const StepGeometry g = step_geometry(m.dtype);
  const size_t file_block = dtype_info(m.dtype).block_bytes;
  const int64_t supers = m.k / (kStepBlock * g.super_blocks);
  for (int64_t s = 0; s < supers; ++s) {
    RowBlock block;
    decode_block(m.dtype, row + static_cast<size_t>(s) * file_block, &block);
    uint8_t* at = tile + static_cast<size_t>(s) * g.stride();
    scatter_scales(g.scale, block, lane, at);
    at += g.super_bytes;
    for (int b = 0; b < g.super_blocks; ++b, at += g.block_bytes) {
      scatter_codes(g.code_bits, block.codes + kStepBlock * b, lane, at);
    }
  }
}

void pack_plain_row(const StepMatrix::Impl& m, const std::byte* row, int lane, uint8_t* tile) {
  const size_t width = dtype_info(m.dtype).block_bytes;
  for (int64_t k = 0; k < m.k; ++k) {
    size_t index = static_cast<size_t>(k) * kStepLanes + static_cast<size_t>(lane);
    if (m.dtype == DType::kBF16)
      index = static_cast<size_t>(k / 2 * kStepLanes + lane) * 2 + static_cast<size_t>(k % 2);
    std::memcpy(tile + index * width, row + static_cast<size_t>(k) * width, width);
  }
}

size_t round_to_cell(size_t bytes) {
  return (bytes + kStepCell - 1) / kStepCell * kStepCell;
}

}  // namespace

StepMatrix::StepMatrix() = default;
StepMatrix::StepMatrix(StepMatrix&&) noexcept = default;
StepMatrix& StepMatrix::operator=(StepMatrix&&) noexcept = default;
StepMatrix::~StepMatrix() = default;

int64_t StepMatrix::n() const {
  return impl_->n;
}
int64_t StepMatrix::k() const {
  return impl_->k;
}
DType StepMatrix::dtype() const {
  return impl_->dtype;
}
size_t StepMatrix::bytes() const {
  return impl_->data.size();
}

Result<StepMatrix> StepMatrix::pack(DType dtype, const std::byte* blocks, int64_t n, int64_t k) {
  const StepGeometry g = step_geometry(dtype);
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  const std::string name(dtype_info(dtype).name);
  if (g.code_bits == 0 && !plain)
    return {Code::kUnsupported, "step_linear: no kernel for weights of type " + name};
  if (n <= 0 || k <= 0) {
    return {Code::kInvalidArgument,
            "step_linear: empty matrix " + std::to_string(n) + " x " + std::to_string(k)};
  }
  const int64_t multiple = dtype_info(dtype).block_elements;
  if (k % multiple != 0) {
    return {Code::kInvalidArgument, "step_linear: " + name + " rows come in blocks of " +
                                        std::to_string(multiple) + " values, K is " + std::to_string(k)};
  }
  auto impl = std::make_unique<Impl>();
  impl->dtype = dtype;
  impl->n = n;
  impl->k = k;
  impl->padded_k = (k + 3) / 4 * 4;
  impl->tiles = (n + kStepLanes - 1) / kStepLanes;
  if (plain) {
    impl->tile_bytes = static_cast<size_t>(impl->padded_k) * kStepLanes * dtype_info(dtype).block_bytes;
  } else {
    impl->tile_bytes = round_to_cell(static_cast<size_t>(k / (kStepBlock * g.super_blocks)) * g.stride());
  }
  if (!impl->data.try_resize(static_cast<size_t>(impl->tiles) * impl->tile_bytes)) {
    return {Code::kResourceExhausted,
            "step_linear: no memory for a matrix of " + std::to_string(n) + " x " + std::to_string(k)};
  }
  auto* out = reinterpret_cast<uint8_t*>(impl->data.data());
  const size_t file_row = row_bytes(dtype, k);
  parallel_rows(impl->tiles, k * kStepLanes, kValuesPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * kStepLanes; row < std::min(end * kStepLanes, n); ++row) {
      const std::byte* from = blocks + static_cast<size_t>(row) * file_row;
      uint8_t* tile = out + static_cast<size_t>(row / kStepLanes) * impl->tile_bytes;
      const int lane = static_cast<int>(row % kStepLanes);
      plain ? pack_plain_row(*impl, from, lane, tile) : pack_quantized_row(*impl, from, lane, tile);
    }
  });
  StepMatrix matrix;
  matrix.impl_ = std::move(impl);
  return matrix;
}

}  // namespace isthmus::kernels
