// SPDX-License-Identifier: Apache-2.0
// The last step of a request: take the longest cached prefix, let the decode engine compute the rest, pass
// tokens on. Runs on the request's thread.
#pragma once

#include "bridge/stages.h"
#include "flow/request.h"

namespace isthmus {

void decode(const Request& rq, ServeStages& s, ReplySink& reply);

}  // namespace isthmus
