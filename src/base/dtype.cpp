// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

namespace isthmus {

const DTypeInfo& dtype_info(DType t) {
  static constexpr std::array<DTypeInfo, 18> kInfo = {{
      {"f32", 1, 4},
      {"f16", 1, 2},
      {"bf16", 1, 2},
      {"i8", 1, 1},
      {"u8", 1, 1},
      {"i32", 1, 4},
      {"i64", 1, 8},
      {"f8_e4m3", 1, 1},
      {"f8_e8m0", 1, 1},
      {"q4_0", 32, 18},
      {"q4_1", 32, 20},
      {"q5_0", 32, 22},
      {"q5_1", 32, 24},
      {"q8_0", 32, 34},
      {"q4_k", 256, 144},
      {"q5_k", 256, 176},
      {"q6_k", 256, 210},
      {"mxfp4", 32, 17},
  }};
  return kInfo[static_cast<size_t>(t)];
}

}  // namespace isthmus
