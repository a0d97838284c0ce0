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
  std::span<const std::byte> storage;  // panels of f32 or of int8; empty when `blocked` is set
#ifdef ISTHMUS_ONEDNN
  std::unique_ptr<OneDnnMatrix> blocked;
#endif

  const float* panels() const {
    return reinterpret_cast<const float*>(storage.data());
  }
};

PackedMatrix::PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

namespace {

constexpr int64_t kFlopsPerThread = 1 << 20;
constexpr int64_t kValuesPerThread = 1 << 16;
constexpr int64_t kInt8RowBlock = 128;  // rows of one item of work; they stay in the second-level cache

Status check_shape(int64_t n, int64_t k) {
  if (n > 0 && k > 0) return {};
  return {Code::kInvalidArgument, "gemm: expected a matrix with rows and columns, got [" + std::to_string(n) +
                                      ", " + std::to_string(k) + "]"};
}

std::vector<float> expand(const bf16* in, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(in[i]);
  return out;
}

#ifdef ISTHMUS_ONEDNN
bool uses_onednn(DType dtype) {
  return dtype == DType::kBF16 && active_rung() == Rung::kAvx512;  // oneDNN has no bf16 product below AVX-512
}
#endif

void multiply(const PanelProduct& w, const float* in, int64_t m, float* out) {
  const int64_t panels = (w.n + kPanelColumns - 1) / kPanelColumns;
  parallel_rows(panels, 2 * m * w.k * kPanelColumns, kFlopsPerThread,
                [&](int64_t first, int64_t last) { gemm_panels(w, in, m, first, last, out); });
}

// Activations in int8, kept from call to call.
struct Int8Scratch {
  AlignedBuffer<int8_t> q;
  AlignedBuffer<float> scale;
  AlignedBuffer<int32_t> sum;

  void reserve(int64_t rows, int64_t stride) {
    if (q.size() < static_cast<size_t>(rows * stride))
      q = AlignedBuffer<int8_t>(static_cast<size_t>(rows * stride));
    if (scale.size() < static_cast<size_t>(rows)) {
      scale = AlignedBuffer<float>(static_cast<size_t>(rows));
      sum = AlignedBuffer<int32_t>(static_cast<size_t>(rows));
    }
  }
};

void multiply_int8(const Int8Weights& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  static thread_local Int8Scratch scratch;
  const int64_t stride = w.groups() * 4;
  scratch.reserve(m, stride);
  // Not `scratch` itself: in the team's threads that name is their own.
  int8_t* const q = scratch.q.data();
  float* const scale = scratch.scale.data();
  int32_t* const sum = scratch.sum.data();
  parallel_rows(m, w.k, kValuesPerThread, [=](int64_t first, int64_t last) {
    if (stride != w.k) std::memset(q + first * stride, 0, static_cast<size_t>((last - first) * stride));
    quantize_int8(in + first * w.k, last - first, w.k, q + first * stride, scale + first, sum + first);
  });
  const Int8Product product{w, {q, scale, sum}, accumulate, out};
  const int64_t blocks = (m + kInt8RowBlock - 1) / kInt8RowBlock, panels = w.panel_count();
  parallel_items(blocks * panels, 2 * m * w.n * w.k, kFlopsPerThread, [&](int64_t item) {
    const int64_t first = item / panels * kInt8RowBlock;
    gemm_int8(product, first, std::min(first + kInt8RowBlock, m), item % panels);
  });
}

// Of the layouts that are ours.
size_t panel_bytes(DType dtype, int64_t n, int64_t k) {
  if (dtype == DType::kI8) return Int8Weights{nullptr, n, k}.bytes();
  return static_cast<size_t>(panel_values(n, k)) * sizeof(float);
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
  pack_panels(expand(weights, n * k).data(), n, k, reinterpret_cast<float*>(m.impl_->own.data()));
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
  multiply({w.impl().panels(), w.n(), w.k(), accumulate}, in, m, out);
}

void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  if (w.dtype() == DType::kI8) {
    return multiply_int8({w.impl().storage.data(), w.n(), w.k()}, in, m, out, accumulate);
  }
  ISTHMUS_CHECK(w.dtype() == DType::kBF16);
#ifdef ISTHMUS_ONEDNN
  if (w.impl().blocked) {
    w.impl().blocked->run(in, m, out, accumulate);
    return;
  }
#endif
  multiply({w.impl().panels(), w.n(), w.k(), accumulate}, expand(in, m * w.k()).data(), m, out);
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
