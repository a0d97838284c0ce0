// SPDX-License-Identifier: Apache-2.0
#include "capture/row_capture.h"

#include <algorithm>

namespace isthmus {

void ProjectCapture::on_layer_input(int layer, int64_t first, int64_t n, const float* x) {
  const int64_t skip = std::max<int64_t>(0, first_ - first);
  if (skip >= n) return;
  const KvProjection& projection = pack_->layers[static_cast<size_t>(layer)];
  const auto values = static_cast<size_t>((n - skip) * projection.kv_heads() * projection.head_dim());
  if (k_.size() < values) {
    k_.resize(values);
    v_.resize(values);
  }
  projection.project(x + skip * projection.width(), first + skip, n - skip, pack_->rope, scratch_,
                     {k_.data(), v_.data()});
  assembler_.add(layer, first + skip, n - skip, k_.data(), v_.data());
}

}  // namespace isthmus
