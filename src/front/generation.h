// SPDX-License-Identifier: Apache-2.0
// One chat or completion request through the front: body to Request, handler, reply. Runs on the request's
// thread and blocks it. Stateless but for what it is given.
#pragma once

#include "front/front.h"
#include "front/openai_request.h"

namespace isthmus {

void serve_generation(RequestKind kind, const HttpRequest& request, HttpResponder& responder,
                      const FrontOptions& options, const FrontDeps& deps);

// The verdict of a request that was refused before the bridge saw it.
Verdict refused_verdict(const FrontOptions& options, const ApiError& error);

}  // namespace isthmus
