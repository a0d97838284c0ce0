// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <utility>
#include <vector>

#include "kernels/gemm_panels.h"

namespace isthmus::kernels {

struct PackedMatrix::Impl {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  std::vector<float> panels;
};

PackedMatrix::PackedMatrix() = default;
PackedMatrix::PackedMatrix(PackedMatrix&&) noexcept = default;
PackedMatrix& PackedMatrix::operator=(PackedMatrix&&) noexcept = default;
PackedMatrix::~PackedMatrix() = default;

Result<PackedMatrix> PackedMatrix::pack(const float* weights, int64_t n, int64_t k) {
  if (n <= 0 || k <= 0) return Status(Code::kInvalidArgument, "gemm: expected a matrix with rows and columns");
  PackedMatrix m;
  m.impl_ = std::make_unique<Impl>(Impl{n, k, DType::kF32, pack_panels(weights, n, k)});
  return m;
}

Result<PackedMatrix> PackedMatrix::pack(const bf16* weights, int64_t n, int64_t k) {
  if (n <= 0 || k <= 0) return Status(Code::kInvalidArgument, "gemm: expected a matrix with rows and columns");
  std::vector<float> expanded(static_cast<size_t>(n * k));
  for (size_t i = 0; i < expanded.size(); ++i) expanded[i] = to_float(weights[i]);
  ASSIGN_OR_RETURN(PackedMatrix m, pack(expanded.data(), n, k));
  m.impl_->dtype = DType::kBF16;
  return m;
}

int64_t PackedMatrix::n() const { return impl_->n; }
int64_t PackedMatrix::k() const { return impl_->k; }
DType PackedMatrix::dtype() const { return impl_->dtype; }
size_t PackedMatrix::bytes() const { return impl_->panels.size() * sizeof(float); }

namespace {

void multiply(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate) {
  const int64_t panels = (w.n() + kPanelColumns - 1) / kPanelColumns;
  scalar::gemm_panels({w.impl().panels.data(), w.n(), w.k(), accumulate}, in, m, 0, panels, out);
}

}  // namespace

void gemm(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate) {
  ISTHMUS_CHECK(w.dtype() == DType::kF32);
  multiply(w, in, m, out, accumulate);
}

void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate) {
  ISTHMUS_CHECK(w.dtype() == DType::kBF16);
  std::vector<float> expanded(static_cast<size_t>(m * w.k()));
  for (size_t i = 0; i < expanded.size(); ++i) expanded[i] = to_float(in[i]);
  multiply(w, expanded.data(), m, out, accumulate);
}

}  // namespace isthmus::kernels
