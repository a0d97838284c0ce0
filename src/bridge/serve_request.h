// SPDX-License-Identifier: Apache-2.0
// One request on the decode box, from decided to answered: read this first. Runs on the request's own thread
// and blocks it; requests share nothing but the stages.
#pragma once

#include "bridge/stages.h"
#include "flow/request.h"

namespace isthmus {

void serve_request(const Request& rq, ServeStages& s, ReplySink& reply);

// The front's way in.
class ServeHandler final : public RequestHandler {
 public:
  explicit ServeHandler(ServeStages stages) : stages_(stages) {}
  void serve(const Request& request, ReplySink& reply) override { serve_request(request, stages_, reply); }

 private:
  ServeStages stages_;
};

}  // namespace isthmus
