// SPDX-License-Identifier: Apache-2.0
// Block types against the reference implementation (tests/golden/gguf_blocks). Here and not in kernels/
// because the data are read with our own safetensors reader.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/test_data.h"
#include "kernels/block_format.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

const Safetensors& golden() {
  static Result<Safetensors> file = Safetensors::open(test_data("gguf_blocks/blocks.safetensors"));
  return *file;
}

std::vector<float> floats_of(const std::string& name) {
  const TensorView* t = golden().tensors().find(name);
  if (t == nullptr) return {};
  std::vector<float> values(t->data.size() / sizeof(float));
  std::memcpy(values.data(), t->data.data(), t->data.size());
  return values;
}

// Index of the first value that differs in a bit (NaN equals NaN), or -1.
int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool equal =
        std::isnan(b[i]) ? std::isnan(a[i]) : std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
    if (!equal) return static_cast<int64_t>(i);
  }
  return -1;
}

struct Expanded {
  DType dtype;
  std::string blocks;
  std::string values;
};

TEST(BlockGolden, ExpandedValuesAreBitEqual) {
  const Expanded cases[] = {
      {DType::kQ4_0, "q4_0.blocks", "q4_0.values"},    {DType::kQ4_1, "q4_1.blocks", "q4_1.values"},
      {DType::kQ5_0, "q5_0.blocks", "q5_0.values"},    {DType::kQ5_1, "q5_1.blocks", "q5_1.values"},
      {DType::kQ8_0, "q8_0.blocks", "q8_0.values"},    {DType::kQ4_K, "q4_k.blocks", "q4_k.values"},
      {DType::kQ5_K, "q5_k.blocks", "q5_k.values"},    {DType::kQ6_K, "q6_k.blocks", "q6_k.values"},
      {DType::kMxfp4, "mxfp4.blocks", "mxfp4.values"}, {DType::kF8E4M3, "f8_e4m3.blocks", "f8_e4m3.values"},
      {DType::kF16, "f16.made", "f16.made_values"},    {DType::kBF16, "bf16.made", "bf16.made_values"},
  };
  for (const Expanded& c : cases) {
    const TensorView* blocks = golden().tensors().find(c.blocks);
    ASSERT_NE(blocks, nullptr) << c.blocks;
    const std::vector<float> expected = floats_of(c.values);
    ASSERT_EQ(row_bytes(c.dtype, static_cast<int64_t>(expected.size())), blocks->data.size()) << c.blocks;
    std::vector<float> got(expected.size());
    kernels::dequantize_row(c.dtype, blocks->data.data(), static_cast<int64_t>(got.size()), got.data());
    const int64_t at = first_difference(got, expected);
    EXPECT_EQ(at, -1) << c.blocks << ": got " << got[static_cast<size_t>(at)] << ", expected "
                      << expected[static_cast<size_t>(at)];
  }
}

TEST(BlockGolden, MadeBlocksAreByteEqual) {
  const std::vector<float> rows = floats_of("rows");
  ASSERT_EQ(rows.size(), 128u * 32u);
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kMxfp4}) {
    const std::string name(dtype_info(dtype).name);
    const TensorView* expected = golden().tensors().find(name + ".made");
    ASSERT_NE(expected, nullptr) << name;
    Bytes made(row_bytes(dtype, static_cast<int64_t>(rows.size())));
    ASSERT_TRUE(
        kernels::quantize_row(dtype, rows.data(), static_cast<int64_t>(rows.size()), made.data()).ok())
        << name;
    ASSERT_EQ(made.size(), expected->data.size()) << name;
    const auto at = std::mismatch(made.begin(), made.end(), expected->data.begin()).first - made.begin();
    EXPECT_EQ(static_cast<size_t>(at), made.size())
        << name << ": block " << static_cast<size_t>(at) / dtype_info(dtype).block_bytes;
  }
}

}  // namespace
}  // namespace isthmus
