// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/exp.h"

namespace isthmus::kernels {
namespace {

TEST(ExpTest, RelativeErrorIsWithinTheNamedBound) {
  for (double x = -87.0; x <= 88.0; x += 0.00317) {
    const float xf = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(xf));
    EXPECT_NEAR(exp_scalar(xf) / want, 1.0, 2.5e-7) << x;
  }
  EXPECT_EQ(exp_scalar(0.0f), 1.0f);
  EXPECT_EQ(exp_scalar(-88.0f), 0.0f);
  EXPECT_EQ(exp_scalar(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isfinite(exp_scalar(1000.0f)));
}

}  // namespace
}  // namespace isthmus::kernels
