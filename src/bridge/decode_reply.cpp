// SPDX-License-Identifier: Apache-2.0
#include "bridge/decode_reply.h"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

GenerateRequest generate_request(const Request& rq, CachedPrefix prefix, ServeStages& s) {
  const auto tokens = static_cast<int64_t>(rq.ids.size());
  const int64_t room = s.engine.context_tokens() - tokens;
  GenerateRequest g;
  g.id = rq.id;
  g.prompt = rq.ids;
  g.prefix = std::move(prefix);
  g.sampling = rq.sampling;
  g.max_tokens = rq.max_tokens > 0 ? std::min(rq.max_tokens, room) : room;
  g.stop_tokens = rq.stop_tokens;
  g.cancel = rq.cancel;
  return g;
}

}  // namespace

void decode(const Request& rq, CachedPrefix prefix, ServeStages& s, ReplySink& reply) {
  auto stream = s.engine.generate(generate_request(rq, std::move(prefix), s));
  if (!stream.ok()) return reply.fail(stream.status());
  for (bool wanted = true;;) {
    auto event = (*stream)->next();
    if (!event.ok()) return reply.fail(event.status());
    if (!event->has_value()) break;
    if (wanted && !reply.token(**event)) {
      wanted = false;
      (*stream)->stop();
    }
  }
  reply.finish((*stream)->stats());
}

}  // namespace isthmus
