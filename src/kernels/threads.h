// SPDX-License-Identifier: Apache-2.0
// How many threads the kernels use when called from the calling thread. OpenMP keeps this per thread, so an
// engine thread says it at its start.
#pragma once

namespace isthmus::kernels {

void use_threads(int n);  // n >= 1; 0: all cores

// Ends the calling thread's team; the next parallel region makes a new one. For a thread that has done its
// last heavy work: while more team threads exist than cores, libgomp lets every team sleep between regions
// instead of spinning for a moment, which makes a decode step on two cores three times as long.
void end_team();

}  // namespace isthmus::kernels
