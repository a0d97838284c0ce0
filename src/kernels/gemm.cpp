// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm_panels.h"
#include "kernels/parallel.h"
#include "kernels/rung.h"
#ifndef ISTHMUS_COMPUTE_SERIAL
#include "kernels/gemm_onednn.h"
#endif

namespace isthmus::kernels {

struct PackedMatrix::Impl {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  std::vector<float> own;         // panels that are ours
  std::span<const float> panels;  // ours or borrowed; empty when `blocked` is set
#ifndef ISTHMUS_COMPUTE_SERIAL
  std::unique_ptr<OneDnnMatrix> blocked;
#endif
};

PackedMatrix::PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

namespace {

constexpr int64_t kFlopsPerThread = 1 << 20;

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

bool uses_onednn([[maybe_unused]] DType dtype) {
#ifdef ISTHMUS_COMPUTE_SERIAL
  return false;
#else
  return dtype == DType::kBF16 && active_rung() == Rung::kAvx512;  // oneDNN has no bf16 product below AVX-512
#endif
}

void multiply(const PanelProduct& w, const float* in, int64_t m, float* out) {
  const int64_t panels = (w.n + kPanelColumns - 1) / kPanelColumns;
  parallel_rows(panels, 2 * m * w.k * kPanelColumns, kFlopsPerThread,
                [&](int64_t first, int64_t last) { gemm_panels(w, in, m, first, last, out); });
}

}  // namespace

PackedMatrix::PackedMatrix(DType dtype, int64_t n, int64_t k) : impl_(std::make_unique<Impl>()) {
  impl_->n = n;
  impl_->k = k;
  impl_->dtype = dtype;
}

void PackedMatrix::own_panels(std::vector<float> panels) {
  impl_->own = std::move(panels);
  impl_->panels = impl_->own;
}

Result<PackedMatrix> PackedMatrix::pack(const float* weights, int64_t n, int64_t k) {
  TRY(check_shape(n, k));
  PackedMatrix m(DType::kF32, n, k);
  m.own_panels(pack_panels(weights, n, k));
  return m;
}

Result<PackedMatrix> PackedMatrix::pack(const bf16* weights, int64_t n, int64_t k) {
  TRY(check_shape(n, k));
  PackedMatrix m(DType::kBF16, n, k);
#ifndef ISTHMUS_COMPUTE_SERIAL
  if (uses_onednn(DType::kBF16)) {
    ASSIGN_OR_RETURN(m.impl_->blocked, OneDnnMatrix::pack(weights, n, k));
    return m;
  }
#endif
  m.own_panels(pack_panels(expand(weights, n * k).data(), n, k));
  return m;
}

std::string PackedMatrix::layout(DType dtype, [[maybe_unused]] int64_t n, [[maybe_unused]] int64_t k) {
#ifndef ISTHMUS_COMPUTE_SERIAL
  if (uses_onednn(dtype)) return OneDnnMatrix::layout(n, k);
#endif
  return "panels-" + std::to_string(kPanelColumns) + "-" + std::string(dtype_info(dtype).name);
}

Result<PackedMatrix> PackedMatrix::adopt(DType dtype, int64_t n, int64_t k,
                                         std::span<const std::byte> storage) {
  TRY(check_shape(n, k));
  PackedMatrix m(dtype, n, k);
#ifndef ISTHMUS_COMPUTE_SERIAL
  if (uses_onednn(dtype)) {
    ASSIGN_OR_RETURN(m.impl_->blocked, OneDnnMatrix::adopt(storage, n, k));
    return m;
  }
#endif
  const int64_t values = (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * k;
  if (storage.size() != static_cast<size_t>(values) * sizeof(float)) {
    return {Code::kMismatch, "gemm: packed matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                                 ": expected " + std::to_string(values * 4) + " bytes, got " +
                                 std::to_string(storage.size())};
  }
  m.impl_->panels = {reinterpret_cast<const float*>(storage.data()), static_cast<size_t>(values)};
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
#ifndef ISTHMUS_COMPUTE_SERIAL
  if (impl_->blocked) return impl_->blocked->storage();
#endif
  return std::as_bytes(impl_->panels);
}

void gemm(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate) {
  ISTHMUS_CHECK(w.dtype() == DType::kF32);
  multiply({w.impl().panels.data(), w.n(), w.k(), accumulate}, in, m, out);
}

void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  ISTHMUS_CHECK(w.dtype() == DType::kBF16);
#ifndef ISTHMUS_COMPUTE_SERIAL
  if (w.impl().blocked) {
    w.impl().blocked->run(in, m, out, accumulate);
    return;
  }
#endif
  multiply({w.impl().panels.data(), w.n(), w.k(), accumulate}, expand(in, m * w.k()).data(), m, out);
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
