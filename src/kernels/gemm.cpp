// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/huge_pages.h"
#include "kernels/gemm_int8.h"
#include "kernels/gemm_panels.h"
#include "kernels/parallel.h"
#include "kernels/row_kernels.h"
#include "kernels/rung.h"
#ifdef ISTHMUS_ONEDNN
#include "kernels/gemm_onednn.h"
#endif

namespace isthmus::kernels {

struct PackedMatrix::Impl {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  HugeBuffer own;                      // empty when the bytes are another's
  std::span<const std::byte> storage;  // panels of `dtype`; empty when `blocked` is set
#ifdef ISTHMUS_ONEDNN
  std::unique_ptr<OneDnnMatrix> blocked;
#endif

  template <typename T>
  PanelWeights<T> panels() const {
    return {reinterpret_cast<const T*>(storage.data()), n, k};
  }
};

PackedMatrix::PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

namespace {

constexpr int64_t kLeastFlops = 1 << 20;  // of a product worth waking the team for
constexpr int64_t kRowBlock = 192;
constexpr int64_t kPadding = 16;  // f32 values, a line

Status check_shape(int64_t n, int64_t k) {
  if (n > 0 && k > 0) return {};
  return {Code::kInvalidArgument, "gemm: expected a matrix with rows and columns, got [" + std::to_string(n) +
                                      ", " + std::to_string(k) + "]"};
}

#ifdef ISTHMUS_ONEDNN
bool uses_onednn(DType dtype) {
  return dtype == DType::kBF16 && multiplies_bf16(active_rung());
}
#endif

// A block of activations, prepared by the thread that multiplies it, in memory kept from call to call. Where
// K is not large they stay in its second-level cache while the panels pass by.
struct BlockScratch {
  AlignedBuffer<float> wide;
  AlignedBuffer<int8_t> q;
  AlignedBuffer<float> scale;
  AlignedBuffer<int32_t> sum;

  template <typename T>
  static T* room(AlignedBuffer<T>& buffer, int64_t count) {
    if (buffer.size() < static_cast<size_t>(count)) buffer = AlignedBuffer<T>(static_cast<size_t>(count));
    return buffer.data();
  }
};

BlockScratch& block_scratch() {
  static thread_local BlockScratch scratch;
  return scratch;
}

// f(first row, rows, panel, is the block new to this thread?)
template <typename F>
void for_each_panel(int64_t m, int64_t n, int64_t k, int64_t panels, const F& f) {
  const int64_t blocks = (m + kRowBlock - 1) / kRowBlock;
  parallel_groups(blocks, panels, 2 * m * n * k, kLeastFlops, [&](int64_t block, int64_t panel, bool is_new) {
    const int64_t first = block * kRowBlock;
    f(first, std::min(kRowBlock, m - first), panel, is_new);
  });
}

void multiply(const PanelWeights<float>& w, const float* in, int64_t m, float* out, bool accumulate) {
  for_each_panel(m, w.n, w.k, panel_count(w.n), [&](int64_t first, int64_t rows, int64_t panel, bool) {
    gemm_panel(w, {in + first * w.k, w.k, rows, accumulate, out + first * w.n}, panel);
  });
}

void multiply(const PanelWeights<bf16>& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  // Rows a power of two apart would fall into the same few lines of a cache.
  const int64_t stride = w.k + kPadding;
  for_each_panel(m, w.n, w.k, panel_count(w.n), [&](int64_t first, int64_t rows, int64_t panel, bool is_new) {
    float* const wide = BlockScratch::room(block_scratch().wide, kRowBlock * stride);
    for (int64_t r = 0; is_new && r < rows; ++r) rows::widen(in + (first + r) * w.k, w.k, wide + r * stride);
    gemm_panel(w, {wide, stride, rows, accumulate, out + first * w.n}, panel);
  });
}

void multiply(const Int8Weights& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  const int64_t stride = w.groups() * 4;
  for_each_panel(m, w.n, w.k, w.panel_count(), [&](int64_t first, int64_t rows, int64_t panel, bool is_new) {
    BlockScratch& scratch = block_scratch();
    int8_t* const q = BlockScratch::room(scratch.q, kRowBlock * stride);
    float* const scale = BlockScratch::room(scratch.scale, kRowBlock);
    int32_t* const sum = BlockScratch::room(scratch.sum, kRowBlock);
    if (is_new) {
      if (stride != w.k) std::memset(q, 0, static_cast<size_t>(rows * stride));
      quantize_int8(in + first * w.k, rows, w.k, q, scale, sum);
    }
    gemm_int8({w, {q, scale, sum, rows}, accumulate, out + first * w.n}, panel);
  });
}

// Of the layouts that are ours.
size_t panel_bytes(DType dtype, int64_t n, int64_t k) {
  if (dtype == DType::kI8) return Int8Weights{nullptr, n, k}.bytes();
  return static_cast<size_t>(panel_values(n, k)) * dtype_info(dtype).block_bytes;
}

}  // namespace

PackedMatrix::PackedMatrix(DType dtype, int64_t n, int64_t k) : impl_(std::make_unique<Impl>()) {
  impl_->n = n;
  impl_->k = k;
  impl_->dtype = dtype;
}

Result<PackedMatrix> PackedMatrix::with_room(DType dtype, int64_t n, int64_t k) {
  PackedMatrix m(dtype, n, k);
  Impl& impl = *m.impl_;
  if (!impl.own.try_resize(panel_bytes(dtype, n, k))) {
    return Status(Code::kResourceExhausted,
                  "gemm: no memory for a matrix of " + std::to_string(n) + " x " + std::to_string(k));
  }
  impl.storage = {impl.own.data(), impl.own.size()};
  return m;
}

Result<PackedMatrix> PackedMatrix::pack(const float* weights, int64_t n, int64_t k) {
  TRY(check_shape(n, k));
  ASSIGN_OR_RETURN(PackedMatrix m, with_room(DType::kF32, n, k));
  pack_panels(weights, n, k, reinterpret_cast<float*>(m.impl_->own.data()));
  return m;
}

Result<PackedMatrix> PackedMatrix::pack(const bf16* weights, int64_t n, int64_t k) {
  TRY(check_shape(n, k));
#ifdef ISTHMUS_ONEDNN
  if (uses_onednn(DType::kBF16)) {
    PackedMatrix m(DType::kBF16, n, k);
    ASSIGN_OR_RETURN(m.impl_->blocked, OneDnnMatrix::pack(weights, n, k));
    return m;
  }
#endif
  ASSIGN_OR_RETURN(PackedMatrix m, with_room(DType::kBF16, n, k));
  pack_panels(weights, n, k, reinterpret_cast<bf16*>(m.impl_->own.data()));
  return m;
}

Result<PackedMatrix> PackedMatrix::pack_int8(const float* weights, int64_t n, int64_t k) {
  TRY(check_shape(n, k));
  if (k > kInt8MaxK) {
    return Status(Code::kUnsupported, "gemm: int8 weights: expected at most " + std::to_string(kInt8MaxK) +
                                          " values in a row, got " + std::to_string(k));
  }
  ASSIGN_OR_RETURN(PackedMatrix m, with_room(DType::kI8, n, k));
  kernels::pack_int8(weights, n, k, m.impl_->own.data());
  return m;
}

std::string PackedMatrix::layout(DType dtype, [[maybe_unused]] int64_t n, [[maybe_unused]] int64_t k) {
#ifdef ISTHMUS_ONEDNN
  if (uses_onednn(dtype)) return OneDnnMatrix::layout(n, k);
#endif
  if (dtype == DType::kI8) return "panels-" + std::to_string(kInt8Columns) + "-i8";
  return "panels-" + std::to_string(kPanelColumns) + "-" + std::string(dtype_info(dtype).name);
}

Result<PackedMatrix> PackedMatrix::adopt(DType dtype, int64_t n, int64_t k,
                                         std::span<const std::byte> storage) {
  TRY(check_shape(n, k));
  PackedMatrix m(dtype, n, k);
#ifdef ISTHMUS_ONEDNN
  if (uses_onednn(dtype)) {
    ASSIGN_OR_RETURN(m.impl_->blocked, OneDnnMatrix::adopt(storage, n, k));
    return m;
  }
#endif
  if (storage.size() != panel_bytes(dtype, n, k)) {
    return {Code::kMismatch, "gemm: packed matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                                 ": expected " + std::to_string(panel_bytes(dtype, n, k)) + " bytes, got " +
                                 std::to_string(storage.size())};
  }
  m.impl_->storage = storage;
  return m;
}

int64_t PackedMatrix::n() const {
  return impl_->n;
}
int64_t PackedMatrix::k() const {
  return impl_->k;
}
DType PackedMatrix::dtype() const {
  return impl_->dtype;
}
std::span<const std::byte> PackedMatrix::storage() const {
#ifdef ISTHMUS_ONEDNN
  if (impl_->blocked) return impl_->blocked->storage();
#endif
  return impl_->storage;
}

void gemm(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate) {
  ISTHMUS_CHECK(w.dtype() == DType::kF32);
  multiply(w.impl().panels<float>(), in, m, out, accumulate);
}

void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  if (w.dtype() == DType::kI8) {
    return multiply(Int8Weights{w.impl().storage.data(), w.n(), w.k()}, in, m, out, accumulate);
  }
  ISTHMUS_CHECK(w.dtype() == DType::kBF16);
#ifdef ISTHMUS_ONEDNN
  if (w.impl().blocked) {
    w.impl().blocked->run(in, m, out, accumulate);
    return;
  }
#endif
  multiply(w.impl().panels<bf16>(), in, m, out, accumulate);
}

bool gemm_rows_invariant(const PackedMatrix& w) {
  constexpr int64_t kRows = 512;
  std::vector<float> in(static_cast<size_t>(kRows * w.k()));
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i * 2654435761u % 4096u) * 0x1p-11f - 1.0f;
  std::vector<bf16> rounded(in.size());
  for (size_t i = 0; i < in.size(); ++i) rounded[i] = to_bf16(in[i]);
  const auto product = [&](int64_t first, int64_t rows) {
    std::vector<float> out(static_cast<size_t>(rows * w.n()));
    w.dtype() == DType::kF32 ? gemm(w, in.data() + first * w.k(), rows, out.data())
                             : gemm(w, rounded.data() + first * w.k(), rows, out.data());
    return out;
  };
  const std::vector<float> all = product(0, kRows);
  const std::pair<int64_t, int64_t> parts[] = {{0, 1}, {100, 63}, {kRows - 1, 1}};
  for (const auto& [first, rows] : parts) {
    const std::vector<float> some = product(first, rows);
    if (std::memcmp(some.data(), all.data() + first * w.n(), some.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace isthmus::kernels
