// SPDX-License-Identifier: Apache-2.0
// How many threads the kernels use when called from the calling thread. OpenMP keeps this per thread, so an
// engine thread says it at its start.
#pragma once

namespace isthmus::kernels {

void use_threads(int n);  // n >= 1; 0: all cores

}  // namespace isthmus::kernels
