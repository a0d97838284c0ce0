// SPDX-License-Identifier: Apache-2.0
// Tests only: planes that are not one row a token, from the cache of a tiny DeepSeek-V4 after 256 and 512
// tokens (windows, two kinds of pools as deltas, remainders, previous windows, layers with a window only).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/bytes.h"
#include "base/test_data.h"
#include "flow/plane.h"
#include "tensor/safetensors.h"

namespace isthmus::hybrid_test {

inline constexpr int64_t kBlock = 256;

inline PlaneSpec plane(int layer, const std::string& part, PlaneKind kind, int64_t ratio,
                       int64_t row_values) {
  return {"L" + std::to_string(layer) + "." + part, layer, kind, ratio, DType::kF32, row_values};
}

inline PlaneLayout hybrid_layout() {
  PlaneLayout layout;
  layout.block_tokens = kBlock;
  const int ratios[] = {0, 0, 4, 128, 4};
  for (int i = 0; i < 5; ++i) {
    auto& planes = layout.planes;
    planes.push_back(plane(i, "window", PlaneKind::kWindow, 16, 32));
    const int64_t r = ratios[i];
    if (r == 0) continue;
    planes.push_back(plane(i, "pool", PlaneKind::kPooled, r, 32));
    const int64_t width = r == 4 ? 64 : 32;
    for (const char* part : {"buf_kv", "buf_gate"}) {
      planes.push_back(plane(i, part, PlaneKind::kRemainder, r, width));
    }
    if (r != 4) continue;
    planes.push_back(plane(i, "idx_pool", PlaneKind::kPooled, r, 32));
    for (const char* part : {"idx_buf_kv", "idx_buf_gate"}) {
      planes.push_back(plane(i, part, PlaneKind::kRemainder, r, width));
    }
    for (const char* part : {"prev_kv", "prev_gate", "idx_prev_kv", "idx_prev_gate"}) {
      planes.push_back(plane(i, part, PlaneKind::kPrevious, r, width));
    }
  }
  return layout;
}

inline Safetensors golden(int64_t tokens) {
  auto file =
      Safetensors::open(test_data("deepseek_v4_tiny/cache_t" + std::to_string(tokens) + ".safetensors"));
  ISTHMUS_CHECK(file.ok());
  return file.take();
}

inline std::span<const std::byte> tensor(const Safetensors& file, const std::string& name) {
  for (const TensorView& t : file.tensors()) {
    if (t.name == name) return t.data;
  }
  return {};
}

// Rows that block [b - 256, b) carries, from the whole state after b tokens.
inline Bytes block_planes(const PlaneLayout& layout, const Safetensors& state, int64_t b) {
  ByteWriter w;
  for (const PlaneSpec& p : layout.planes) {
    const auto data = tensor(state, p.name);
    const PlaneRows rows = plane_rows(p, b - kBlock, b);
    // The files hold all pooled rows, and of the snapshots just the rows themselves.
    const size_t skip = p.kind == PlaneKind::kPooled ? static_cast<size_t>(rows.first) * p.row_bytes() : 0;
    EXPECT_EQ(data.size(), skip + static_cast<size_t>(rows.count) * p.row_bytes()) << p.name;
    w.append(data.subspan(skip));
  }
  return w.take();
}

}  // namespace isthmus::hybrid_test
