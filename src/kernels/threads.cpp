// SPDX-License-Identifier: Apache-2.0
#include "kernels/threads.h"

#ifndef ISTHMUS_COMPUTE_SERIAL
#include <omp.h>
#endif

namespace isthmus::kernels {

void use_threads([[maybe_unused]] int n) {
#ifndef ISTHMUS_COMPUTE_SERIAL
  omp_set_num_threads(n > 0 ? n : omp_get_num_procs());
#endif
}

void end_team() {
#ifndef ISTHMUS_COMPUTE_SERIAL
  (void)omp_pause_resource_all(omp_pause_soft);  // fails only inside a parallel region
#endif
}

}  // namespace isthmus::kernels
