// SPDX-License-Identifier: Apache-2.0
// SIMD form of step_scalar.cpp: lanes are output rows, so each sees the twin's operations in its order.
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <algorithm>
#include <cstring>

#include "kernels/simd.h"
#include "kernels/step_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/step_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot4-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void tiles_all(const StepCall& call, int64_t begin, int64_t end) {
  scalar::step_tiles(call, begin, end);
}

#else

using DF = hn::CappedTag<float, kStepLanes>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kWidth = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kParts = kStepLanes / kWidth;  // registers that hold a tile's lanes
constexpr int kMaxRowsAtOnce = 8;            // rows that share one expansion of the weights to registers

// As many as have their sums in registers beside the expanded weights: 32 registers but on AVX2, which
// has 16.
template <DType T>
constexpr int rows_at_once() {
  return step_geometry(T).code_bits != 0 && HWY_TARGET != HWY_AVX2 ? kMaxRowsAtOnce : 4;
}

// Asks for what lies a page further on in the stream of tiles; harmless past its end. The hardware's
// prefetchers stop at each page; alone, where weights come from a far cache (Intel), they left a fifth to a
// quarter of the speed unused. Done for quants only: scales come with their neighbours, and asking for them
// too was no faster.
constexpr size_t kAhead = 4096;
template <size_t kBytes>
HWY_INLINE void prefetch_ahead(const uint8_t* at) {
  HWY_UNROLL(8)
  for (size_t i = 0; i < kBytes; i += kStepCell) __builtin_prefetch(at + kAhead + i);
}

using D8 = hn::Repartition<uint8_t, DI>;
HWY_INLINE VI load_cell(const uint8_t* p) {
  return hn::BitCast(DI(), hn::LoadU(D8(), p));
}
HWY_INLINE VI splat4(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return hn::Set(DI(), four);
}

// Moves bits [kFrom, kFrom + width) of each byte to bit 4; what crosses into other bits is masked away.
template <int kFrom>
HWY_INLINE VI bits_to_4(VI v, int mask) {
  const VI keep = hn::Set(DI(), mask * 0x01010101);
  if constexpr (kFrom < 4) v = hn::ShiftLeft<4 - kFrom>(v);
  if constexpr (kFrom > 4) v = hn::ShiftRight<kFrom - 4>(v);
  return hn::And(v, keep);
}

template <int... kGroup>
HWY_INLINE void add_fifth_bits(VI high, VI (&code)[8], std::integer_sequence<int, kGroup...>) {
  ((code[kGroup] = hn::Or(code[kGroup], bits_to_4<kGroup>(high, 0x10))), ...);
}
template <int kFirst, int... kQuarter>
HWY_INLINE void add_two_bits(VI high, VI (&code)[8], std::integer_sequence<int, kQuarter...>) {
  ((code[kFirst + kQuarter] = hn::Or(code[kFirst + kQuarter], bits_to_4<2 * kQuarter>(high, 0x30))), ...);
}

// `cells`: quants of one block, at this part's lanes.
template <DType T>
HWY_INLINE void unpack_codes(const uint8_t* cells, VI (&code)[8]) {
  constexpr int kBits = step_geometry(T).code_bits;
  if constexpr (kBits == 8) {
    HWY_UNROLL(8)
    for (int g = 0; g < 8; ++g) code[g] = load_cell(cells + 64 * g);
    return;
  }
  const VI low = hn::Set(DI(), 0x0f0f0f0f);
  HWY_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    const VI v = load_cell(cells + 64 * c);
    code[c] = hn::And(v, low);
    code[c + 4] = hn::And(hn::ShiftRight<4>(v), low);
  }
  if constexpr (kBits == 5)
    add_fifth_bits(load_cell(cells + 256), code, std::make_integer_sequence<int, 8>());
  if constexpr (kBits == 6) {
    add_two_bits<0>(load_cell(cells + 256), code, std::make_integer_sequence<int, 4>());
    add_two_bits<4>(load_cell(cells + 320), code, std::make_integer_sequence<int, 4>());
  }
  if constexpr (T == DType::kMxfp4) {
    const D8 d8;
    const auto table = hn::LoadDup128(d8, kMxfp4Codes);
    HWY_UNROLL(8)
    for (int g = 0; g < 8; ++g)
      code[g] = hn::BitCast(DI(), hn::TableLookupBytes(table, hn::BitCast(d8, code[g])));
  }
}

HWY_INLINE VF load_halves(const uint8_t* p) {
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(DF(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
template <class T>
HWY_INLINE VF load_bytes(const uint8_t* p) {
  const hn::Rebind<T, DI> d8;
  return hn::ConvertTo(DF(), hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const T*>(p))));
}
HWY_INLINE VF load_e8m0_half(const uint8_t* p) {
  const DU du;
  const auto e = hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint8_t, DU>(), p));
  const auto small = hn::Shl(hn::Set(du, 0x00200000u), e);
  const auto normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(du, 1)));
  return hn::BitCast(DF(), hn::IfThenElse(hn::Lt(e, hn::Set(du, 2)), small, normal));
}

struct BlockScale {
  VF scale, second, minimum;  // second: of the upper half block; minimum: added times the activation sum
  HWY_INLINE BlockScale() {}  // written out: GCC gives an implicit one no target attributes
};

// `section`: the super-block's scales at this part's first lane (`lane`); b: block within it.
template <DType T>
HWY_INLINE BlockScale load_scale(const uint8_t* section, int b, int lane) {
  constexpr StepScale kKind = step_geometry(T).scale;
  BlockScale s;
  s.second = s.minimum = hn::Zero(DF());
  if constexpr (kKind == StepScale::kE8M0) {
    s.scale = load_e8m0_half(section + lane);
    return s;
  } else {
    s.scale = load_halves(section + 2 * lane);
    const uint8_t* bytes = section + 32 + lane;
    if constexpr (kKind == StepScale::kF16Min) s.minimum = load_halves(section + 32 + 2 * lane);
    if constexpr (kKind == StepScale::kSuperMin) {
      const VF dmin = load_halves(section + 32 + 2 * lane);
      s.scale = hn::Mul(s.scale, load_bytes<uint8_t>(bytes + 32 + 16 * b));
      s.minimum = hn::Neg(hn::Mul(dmin, load_bytes<uint8_t>(bytes + 160 + 16 * b)));
    }
    if constexpr (kKind == StepScale::kSuperHalf) {
      const VF d = s.scale;
      s.scale = hn::Mul(d, load_bytes<int8_t>(bytes + 32 * b));
      s.second = hn::Mul(d, load_bytes<int8_t>(bytes + 32 * b + 16));
    }
    return s;
  }
}

// Two chains of four: exact integers, so the order is free.
template <DType T>
HWY_INLINE void dot_block(const VI (&code)[8], const StepActivation& a, VI& first, VI& second) {
  constexpr bool kSmall = step_geometry(T).code_bits != 8;
  first = hn::Set(DI(), a.init[0]);
  second = hn::Set(DI(), a.init[1]);
  HWY_UNROLL(4)
  for (int g = 0; g < 4; ++g) {
    first = dot4_u8s8<kSmall>(code[g], splat4(a.q + 4 * g), first);
    second = dot4_u8s8<kSmall>(code[g + 4], splat4(a.q + 4 * g + 16), second);
  }
}

template <DType T, int kRows>
HWY_INLINE void accumulate_block(const VI (&code)[8], const BlockScale& s, const StepActivation* in,
                                 int64_t stride, VF (&acc)[kRows], VF (&low)[kRows]) {
  constexpr StepScale kKind = step_geometry(T).scale;
  HWY_UNROLL(kMaxRowsAtOnce)
  for (int r = 0; r < kRows; ++r) {
    const StepActivation& a = in[r * stride];
    const VF d = hn::Set(DF(), a.d);
    VI first, second;
    dot_block<T>(code, a, first, second);
    if constexpr (kKind == StepScale::kSuperHalf) {
      acc[r] = hn::MulAdd(hn::Mul(s.scale, d), hn::ConvertTo(DF(), first), acc[r]);
      acc[r] = hn::MulAdd(hn::Mul(s.second, d), hn::ConvertTo(DF(), second), acc[r]);
    } else {
      acc[r] = hn::MulAdd(hn::Mul(s.scale, d), hn::ConvertTo(DF(), hn::Add(first, second)), acc[r]);
    }
    if constexpr (step_has_minimum(kKind)) low[r] = hn::MulAdd(s.minimum, hn::Set(DF(), a.sum), low[r]);
  }
}

// out: [kRows][16]
template <DType T, int kRows>
HWY_INLINE void tile_quantized(const StepCall& c, const uint8_t* tile, const StepActivation* in, float* out) {
  constexpr StepGeometry kGeometry = step_geometry(T);
  const int64_t supers = c.w->k / (kStepBlock * kGeometry.super_blocks);
  for (int part = 0; part < kParts; ++part) {
    VF acc[kRows], low[kRows];
    HWY_UNROLL(kMaxRowsAtOnce)
    for (int r = 0; r < kRows; ++r) acc[r] = low[r] = hn::Zero(DF());
    const uint8_t* at = tile;
    const StepActivation* a = in;
    for (int64_t s = 0; s < supers; ++s) {
      const uint8_t* section = at;
      at += kGeometry.super_bytes;
      for (int b = 0; b < kGeometry.super_blocks; ++b, at += kGeometry.block_bytes, ++a) {
        if (part == 0) prefetch_ahead<kGeometry.block_bytes>(at);
        VI code[8];
        unpack_codes<T>(at + 4 * kWidth * part, code);
        accumulate_block<T, kRows>(code, load_scale<T>(section, b, part * kWidth), a, c.stride, acc, low);
      }
    }
    HWY_UNROLL(kMaxRowsAtOnce)
    for (int r = 0; r < kRows; ++r) {
      const VF result = step_has_minimum(kGeometry.scale) ? hn::Add(acc[r], low[r]) : acc[r];
      hn::StoreU(result, DF(), out + kStepLanes * r + kWidth * part);
    }
  }
}

// Four consecutive k of a tile, this part's lanes.
template <DType T>
HWY_INLINE void load_plain(const uint8_t* at, int part, VF (&w)[4]) {
  if constexpr (T == DType::kBF16) {
    const DU du;
    HWY_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const auto pair = hn::BitCast(du, load_cell(at + 64 * i + 4 * kWidth * part));
      w[2 * i] = hn::BitCast(DF(), hn::ShiftLeft<16>(pair));
      w[2 * i + 1] = hn::BitCast(DF(), hn::And(pair, hn::Set(du, 0xffff0000u)));
    }
    return;
  }
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    if constexpr (T == DType::kF16)
      w[i] = load_halves(at + 32 * i + 2 * kWidth * part);
    else
      w[i] = hn::BitCast(DF(), load_cell(at + 64 * i + 4 * kWidth * part));
  }
}

template <DType T, int kRows>
HWY_INLINE void tile_plain(const StepCall& c, const uint8_t* tile, const float* in, float* out) {
  constexpr size_t kStep = (T == DType::kF32 ? 4 : 2) * 4 * kStepLanes;
  for (int part = 0; part < kParts; ++part) {
    VF sum[kRows][4];
    HWY_UNROLL(kMaxRowsAtOnce)
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = hn::Zero(DF());
    const uint8_t* at = tile;
    for (int64_t k = 0; k < c.w->padded_k; k += 4, at += kStep) {
      if (part == 0) prefetch_ahead<kStep>(at);
      VF w[4];
      load_plain<T>(at, part, w);
      HWY_UNROLL(kMaxRowsAtOnce)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(4)
        for (int i = 0; i < 4; ++i)
          sum[r][i] = hn::MulAdd(w[i], hn::Set(DF(), in[r * c.stride + k + i]), sum[r][i]);
      }
    }
    HWY_UNROLL(kMaxRowsAtOnce)
    for (int r = 0; r < kRows; ++r) {
      const VF total = hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3]));
      hn::StoreU(total, DF(), out + kStepLanes * r + kWidth * part);
    }
  }
}

// results: [count][16] of tile t, rows from `row`.
HWY_INLINE void store_tile(const StepCall& c, int64_t t, int row, int count, const float* results) {
  const int64_t first = t * kStepLanes;
  const int64_t lanes = std::min<int64_t>(kStepLanes, c.w->n - first);
  for (int r = 0; r < count; ++r) {
    float* to = c.out + (row + r) * c.w->n + first;
    const float* from = results + kStepLanes * r;
    if (lanes < kStepLanes) {
      for (int64_t l = 0; l < lanes; ++l) to[l] = c.accumulate ? to[l] + from[l] : from[l];
      continue;
    }
    HWY_UNROLL(4)
    for (int p = 0; p < kStepLanes; p += kWidth) {
      const VF v = hn::LoadU(DF(), from + p);
      hn::StoreU(c.accumulate ? hn::Add(hn::LoadU(DF(), to + p), v) : v, DF(), to + p);
    }
  }
}

template <DType T, int kRows>
HWY_NOINLINE void tile_rows(const StepCall& c, int64_t t, int row) {
  alignas(64) float results[kRows * kStepLanes];
  const auto* tile = reinterpret_cast<const uint8_t*>(c.w->tile(t));
  if constexpr (step_geometry(T).code_bits != 0) {
    tile_quantized<T, kRows>(c, tile, c.quantized + row * c.stride, results);
  } else {
    tile_plain<T, kRows>(c, tile, c.plain + row * c.stride, results);
  }
  store_tile(c, t, row, kRows, results);
}

// Groups of kRows as long as there are as many left, from `row` on; the first row that is still to do.
template <DType T, int kRows>
HWY_INLINE int groups_of(const StepCall& c, int64_t t, int row) {
  for (; row + kRows <= c.rows; row += kRows) tile_rows<T, kRows>(c, t, row);
  return row;
}

// Later groups of rows find the tile in the L1 or L2 cache: memory is read once.
template <DType T>
void tiles_of(const StepCall& c, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    int row = groups_of<T, rows_at_once<T>()>(c, t, 0);
    row = groups_of<T, 4>(c, t, row);
    row = groups_of<T, 3>(c, t, row);
    groups_of<T, 1>(c, t, groups_of<T, 2>(c, t, row));
  }
}

void tiles_all(const StepCall& call, int64_t begin, int64_t end) {
  switch (call.w->dtype) {
    case DType::kF32:
      return tiles_of<DType::kF32>(call, begin, end);
    case DType::kF16:
      return tiles_of<DType::kF16>(call, begin, end);
    case DType::kBF16:
      return tiles_of<DType::kBF16>(call, begin, end);
    case DType::kQ4_0:
      return tiles_of<DType::kQ4_0>(call, begin, end);
    case DType::kQ4_1:
      return tiles_of<DType::kQ4_1>(call, begin, end);
    case DType::kQ5_0:
      return tiles_of<DType::kQ5_0>(call, begin, end);
    case DType::kQ5_1:
      return tiles_of<DType::kQ5_1>(call, begin, end);
    case DType::kQ8_0:
      return tiles_of<DType::kQ8_0>(call, begin, end);
    case DType::kQ4_K:
      return tiles_of<DType::kQ4_K>(call, begin, end);
    case DType::kQ5_K:
      return tiles_of<DType::kQ5_K>(call, begin, end);
    case DType::kQ6_K:
      return tiles_of<DType::kQ6_K>(call, begin, end);
    case DType::kMxfp4:
      return tiles_of<DType::kMxfp4>(call, begin, end);
    default:
      return;  // StepMatrix::pack lets no other in
  }
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {

HWY_EXPORT(tiles_all);

namespace step {

void step_tiles(const StepCall& call, int64_t begin, int64_t end) {
  ISTHMUS_DISPATCH(tiles_all)(call, begin, end);
}

}  // namespace step
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
