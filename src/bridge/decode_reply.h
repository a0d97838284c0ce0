// SPDX-License-Identifier: Apache-2.0
// The last step of a request: from what is cached, let the decode engine compute the rest, and pass tokens
// on. Runs on the request's thread.
#pragma once

#include "bridge/stages.h"
#include "flow/prefix_store.h"
#include "flow/request.h"

namespace isthmus {

void decode(const Request& rq, CachedPrefix prefix, ServeStages& s, ReplySink& reply);

}  // namespace isthmus
