// SPDX-License-Identifier: Apache-2.0
// SIMD form of attention_split.cpp, bit for bit: bf16 caches whose head size is a multiple of 32; the twin
// takes the rest. Up to four query heads share each K and V row in registers. bf16 is expanded to f32 rather
// than multiplied as bf16: scores keep the f32 query's accuracy, and memory is the limit either way.
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <algorithm>
#include <limits>

#include "kernels/attention_split.h"
#include "kernels/kv_pages.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_split_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void split_all(const AttentionSplit& split) {
  scalar::attention_split(split);
}
void combine_all(const SplitPartials& partials, float* out) {
  scalar::combine_splits(partials, out);
}

#else

using DF = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kWidth = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kParts = 16 / kWidth;           // registers that hold 16 partial sums
constexpr int kHalves = kParts == 4 ? 2 : 1;  // registers that hold 8
constexpr int kMaxHeads = 4;                  // that share a row
constexpr int kMaxDim = 512;
constexpr int kChunk = 32;

// A tile's K rows as key_scores reads them.
struct KeyRows {
  const bf16* first;
  int64_t stride;  // from row to row
  int chunks;
  int64_t values;  // from a K row to the V row of the same token
  HWY_INLINE KeyRows from(int64_t row) const { return {first + row * stride, stride, chunks, values}; }
};

struct Work {
  alignas(64) float q[kMaxHeads][kMaxDim];  // per chunk: 16 even values, 16 odd values
  alignas(
      64) float weights[kMaxHeads][kSplitTokens];  // scores, then weights; index: position - split's start
};

// 32 consecutive bf16 of a row as even and odd values, part p.
HWY_INLINE void load_pairs(const bf16* at, int p, VF& even, VF& odd) {
  const DU du;
  const auto pairs = hn::LoadU(du, reinterpret_cast<const uint32_t*>(at) + kWidth * p);
  even = hn::BitCast(DF(), hn::ShiftLeft<16>(pairs));
  odd = hn::BitCast(DF(), hn::And(pairs, hn::Set(du, 0xffff0000u)));
}

// Asks for `bytes` from `at` on; harmless wherever it points. Into L2: a split's K and V rows, and the next
// split's K rows behind them, are more than L1 holds.
HWY_INLINE void prefetch(const void* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(at) + i, 0, 2);
}

template <int kHeads>
struct Eights {  // each register: the 8 partial sums of one key (AVX-512: of two keys, `key` and `key + 8`)
  VF v[kHeads][kHalves];
  HWY_INLINE Eights() {}  // written out: GCC gives an implicit one no target attributes
};

// Partial sums of the first of `keys`. Both passes keep memory busy: this one asks for V, row by row (in one
// go they hold up the K rows); the pass over V asks for the next split's K.
template <int kHeads>
HWY_INLINE void sixteen_sums(const Work& work, const KeyRows& keys, VF (&sum)[kHeads][kParts]) {
  prefetch(keys.first + keys.values, keys.stride * 2);
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(4)
    for (int p = 0; p < kParts; ++p) sum[h][p] = hn::Zero(DF());
  }
  HWY_UNROLL(2)
  for (int c = 0; c < keys.chunks; ++c) {
    HWY_UNROLL(4)
    for (int p = 0; p < kParts; ++p) {
      VF even, odd;
      load_pairs(keys.first + kChunk * c, p, even, odd);
      HWY_UNROLL(4)
      for (int h = 0; h < kHeads; ++h) {
        const float* q = work.q[h] + kChunk * c + kWidth * p;
        sum[h][p] = hn::MulAdd(even, hn::Load(DF(), q), sum[h][p]);
        sum[h][p] = hn::MulAdd(odd, hn::Load(DF(), q + 16), sum[h][p]);
      }
    }
  }
}

template <int kHeads>
HWY_INLINE Eights<kHeads> eight_sums(const Work& work, const KeyRows& keys) {
  Eights<kHeads> out;
  VF a[kHeads][kParts];
  sixteen_sums<kHeads>(work, keys, a);
#if HWY_TARGET == HWY_AVX3
  VF b[kHeads][kParts];
  sixteen_sums<kHeads>(work, keys.from(8), b);
#endif
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
#if HWY_TARGET == HWY_AVX3
    const DF d;
    out.v[h][0] =
        hn::Add(hn::ConcatLowerLower(d, b[h][0], a[h][0]), hn::ConcatUpperUpper(d, b[h][0], a[h][0]));
#else
    HWY_UNROLL(2)
    for (int i = 0; i < kHalves; ++i) out.v[h][i] = hn::Add(a[h][i], a[h][i + kParts / 2]);
#endif
  }
  return out;
}

// In each 128-bit block, sums j and j + 2 of x, then of y.
HWY_INLINE VF add_pairs(VF x, VF y) {
  const hn::Repartition<double, DF> dd;
  const auto a = hn::BitCast(dd, x), b = hn::BitCast(dd, y);
  return hn::Add(hn::BitCast(DF(), hn::InterleaveLower(dd, a, b)),
                 hn::BitCast(DF(), hn::InterleaveUpper(dd, a, b)));
}

// In each 128-bit block: x0 + x1, y0 + y1, x2 + x3, y2 + y3.
HWY_INLINE VF add_neighbours(VF x, VF y) {
  return hn::Add(hn::OddEven(hn::DupEven(y), x), hn::OddEven(y, hn::DupOdd(x)));
}

// Four keys from `keys` (AVX-512: and four from 8 later), in blocks whose sums are still to be added.
template <int kHeads>
HWY_INLINE Eights<kHeads> four_keys(const Work& work, const KeyRows& keys) {
  const Eights<kHeads> a = eight_sums<kHeads>(work, keys);
  const Eights<kHeads> c = eight_sums<kHeads>(work, keys.from(2));
  Eights<kHeads> even, out;
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(2)
    for (int i = 0; i < kHalves; ++i) even.v[h][i] = add_pairs(a.v[h][i], c.v[h][i]);
  }
  const Eights<kHeads> b = eight_sums<kHeads>(work, keys.from(1));
  const Eights<kHeads> d = eight_sums<kHeads>(work, keys.from(3));
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(2)
    for (int i = 0; i < kHalves; ++i)
      out.v[h][i] = add_neighbours(even.v[h][i], add_pairs(b.v[h][i], d.v[h][i]));
  }
  return out;
}

// Scores of kWidth consecutive keys, one a lane, not yet scaled.
template <int kHeads>
HWY_INLINE void key_scores(const Work& work, const KeyRows& keys, VF (&score)[kHeads]) {
  const Eights<kHeads> x = four_keys<kHeads>(work, keys);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const Eights<kHeads> y = four_keys<kHeads>(work, keys.from(4));
#endif
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
#if HWY_TARGET == HWY_AVX3
    const VF u = x.v[h][0], v = y.v[h][0];
    score[h] = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(v), u),
                       hn::OddEvenBlocks(v, hn::SwapAdjacentBlocks(u)));
#elif HWY_TARGET == HWY_AVX2
    const DF d;
    score[h] =
        hn::Add(hn::ConcatLowerLower(d, y.v[h][0], x.v[h][0]), hn::ConcatUpperUpper(d, y.v[h][0], x.v[h][0]));
#else
    score[h] = hn::Add(x.v[h][0], x.v[h][kHalves - 1]);
#endif
  }
}

// Fills work.weights with scaled scores; keys outside [begin, end) in the first and last 16 get -infinity.
template <int kHeads, int kChunks>
HWY_INLINE void score_split(const AttentionSplit& s, Work& work) {
  const int64_t dim = s.kv->head_dim;
  const int chunks = kChunks != 0 ? kChunks : static_cast<int>(dim / kChunk);
  const int64_t values = v_rows<bf16>(*s.kv, s.begin / kPageTokens, s.kv_head) -
                         k_rows<bf16>(*s.kv, s.begin / kPageTokens, s.kv_head);
  const int64_t start = s.begin / kSplitTokens * kSplitTokens;
  const VF scale = hn::Set(DF(), s.scale), nothing = hn::Set(DF(), -std::numeric_limits<float>::infinity());
  const VF first = hn::Set(DF(), static_cast<float>(s.begin - start)),
           last = hn::Set(DF(), static_cast<float>(s.end - start));
  for (int64_t t = s.begin / kWidth * kWidth; t < s.end; t += kWidth) {
    const KeyRows keys{k_rows<bf16>(*s.kv, t / kPageTokens, s.kv_head) + t % kPageTokens * dim, dim, chunks,
                       values};
    VF score[kHeads];
    key_scores<kHeads>(work, keys, score);
    const VF at = hn::Iota(DF(), static_cast<float>(t - start));
    const auto seen = hn::And(hn::Ge(at, first), hn::Lt(at, last));
    HWY_UNROLL(4)
    for (int h = 0; h < kHeads; ++h) {
      hn::Store(hn::IfThenElse(seen, hn::Mul(score[h], scale), nothing), DF(), work.weights[h] + (t - start));
    }
  }
}

// Scores to weights; returns the largest score and the sum of weights in out[0], out[1].
HWY_INLINE void softmax_split(const AttentionSplit& s, float* weights, float* out) {
  const int64_t start = s.begin / kSplitTokens * kSplitTokens;
  const int64_t first = s.begin / kWidth * kWidth - start, last = s.end - start;
  VF top = hn::Load(DF(), weights + first);
  for (int64_t i = first + kWidth; i < last; i += kWidth) top = hn::Max(top, hn::Load(DF(), weights + i));
  const VF largest = hn::MaxOfLanes(DF(), top);
  VF sums[kParts];
  HWY_UNROLL(4)
  for (int p = 0; p < kParts; ++p) sums[p] = hn::Zero(DF());
  for (int64_t i = first; i < last; i += kWidth) {
    const VF weight = exp_lanes(DF(), hn::Sub(hn::Load(DF(), weights + i), largest));
    hn::Store(weight, DF(), weights + i);
    HWY_UNROLL(4)
    for (int p = 0; p < kParts; ++p) {
      if (i / kWidth % kParts == p) sums[p] = hn::Add(sums[p], weight);
    }
  }
  alignas(64) float lanes[16];
  HWY_UNROLL(4)
  for (int p = 0; p < kParts; ++p) hn::Store(sums[p], DF(), lanes + kWidth * p);
  out[0] = hn::GetLane(largest);
  out[1] = reduce_16(lanes);
}

// The K row of the thread's next split that corresponds to key t, to the end of its page; null: none.
HWY_INLINE const bf16* next_keys(const AttentionSplit& s, int64_t t) {
  const int64_t key = s.next_begin + t % kSplitTokens;
  if (key >= s.next_end) return nullptr;
  return k_rows<bf16>(*s.kv, key / kPageTokens, s.next_kv_head) + key % kPageTokens * s.kv->head_dim;
}

// out columns [32 * chunk, 32 * (chunk + kColumns)) of each head.
template <int kHeads, int kColumns>
HWY_INLINE void weigh_values(const AttentionSplit& s, const Work& work, int chunk, float* out) {
  const int64_t dim = s.kv->head_dim;
  const int64_t start = s.begin / kSplitTokens * kSplitTokens;
  constexpr int kRegisters = kColumns * kParts;
  VF even[kHeads][kRegisters], odd[kHeads][kRegisters];
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRegisters; ++i) even[h][i] = odd[h][i] = hn::Zero(DF());
  }
  for (int64_t t = s.begin; t < s.end;) {
    const bf16* row =
        v_rows<bf16>(*s.kv, t / kPageTokens, s.kv_head) + t % kPageTokens * dim + kChunk * chunk;
    const int64_t page_end = std::min(s.end, (t / kPageTokens + 1) * kPageTokens);
    const bf16* next = chunk == 0 ? next_keys(s, t) : nullptr;
    for (; t < page_end; ++t, row += dim) {
      if (next != nullptr) {
        prefetch(next, dim * 2);
        next += dim;
      }
      HWY_UNROLL(4)
      for (int i = 0; i < kRegisters; ++i) {
        VF e, o;
        load_pairs(row + kChunk * (i / kParts), i % kParts, e, o);
        HWY_UNROLL(4)
        for (int h = 0; h < kHeads; ++h) {
          const VF weight = hn::Set(DF(), work.weights[h][t - start]);
          even[h][i] = hn::MulAdd(weight, e, even[h][i]);
          odd[h][i] = hn::MulAdd(weight, o, odd[h][i]);
        }
      }
    }
  }
  HWY_UNROLL(4)
  for (int h = 0; h < kHeads; ++h) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRegisters; ++i) {
      hn::StoreInterleaved2(even[h][i], odd[h][i], DF(),
                            out + h * (dim + 2) + kChunk * chunk + 2 * kWidth * i);
    }
  }
}

template <int kHeads, int kChunks>
HWY_NOINLINE void split_heads(const AttentionSplit& s, int first_head) {
  const int dim = s.kv->head_dim;
  const int chunks = dim / kChunk;
  Work work;
  for (int h = 0; h < kHeads; ++h) {
    const float* q = s.q + (first_head + h) * dim;
    for (int d = 0; d < dim; ++d) work.q[h][d / kChunk * kChunk + d % 2 * 16 + d % kChunk / 2] = q[d];
  }
  float* out = s.out + first_head * (dim + 2);
  score_split<kHeads, kChunks>(s, work);
  for (int h = 0; h < kHeads; ++h) softmax_split(s, work.weights[h], out + h * (dim + 2) + dim);
  int c = 0;
  if constexpr (kParts == 1) {
    for (; c + 2 <= chunks; c += 2) weigh_values<kHeads, 2>(s, work, c, out);
  }
  for (; c < chunks; ++c) weigh_values<kHeads, 1>(s, work, c, out);
}

template <int kHeads>
HWY_INLINE void split_dims(const AttentionSplit& s, int first_head) {
  switch (s.kv->head_dim) {
    case 64:
      return split_heads<kHeads, 2>(s, first_head);
    case 128:
      return split_heads<kHeads, 4>(s, first_head);
    default:
      return split_heads<kHeads, 0>(s, first_head);
  }
}

void split_all(const AttentionSplit& s) {
  if (s.kv->dtype != DType::kBF16 || s.kv->head_dim % kChunk != 0 || s.kv->head_dim > kMaxDim) {
    return scalar::attention_split(s);
  }
  for (int h = 0; h < s.group; h += kMaxHeads) {
    switch (s.group - h) {
      case 1:
        split_dims<1>(s, h);
        break;
      case 2:
        split_dims<2>(s, h);
        break;
      case 3:
        split_dims<3>(s, h);
        break;
      default:
        split_dims<4>(s, h);
        break;
    }
  }
}

void combine_all(const SplitPartials& p, float* out) {
  if (p.dim % 16 != 0) return scalar::combine_splits(p, out);
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t s = 0; s < p.splits; ++s) largest = std::max(largest, p.first[s * p.step + p.dim]);
  std::fill(out, out + p.dim, 0.0f);
  float total = 0;
  for (int64_t s = 0; s < p.splits; ++s) {
    const float* partial = p.first + s * p.step;
    const float weight = exp_scalar(partial[p.dim] - largest);
    total += weight * partial[p.dim + 1];
    for (int d = 0; d < p.dim; d += kWidth) {
      const VF product = hn::Mul(hn::Set(DF(), weight), hn::LoadU(DF(), partial + d));
      hn::StoreU(hn::Add(hn::LoadU(DF(), out + d), product), DF(), out + d);
    }
  }
  const VF inverse = hn::Set(DF(), 1.0f / total);
  for (int d = 0; d < p.dim; d += kWidth)
    hn::StoreU(hn::Mul(hn::LoadU(DF(), out + d), inverse), DF(), out + d);
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {

HWY_EXPORT(split_all);
HWY_EXPORT(combine_all);

namespace step {

void attention_split(const AttentionSplit& split) {
  ISTHMUS_DISPATCH(split_all)(split);
}
void combine_splits(const SplitPartials& partials, float* out) {
  ISTHMUS_DISPATCH(combine_all)(partials, out);
}

}  // namespace step
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
