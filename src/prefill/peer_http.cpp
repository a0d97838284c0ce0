// SPDX-License-Identifier: Apache-2.0
#include "prefill/peer_http.h"

#include "prefill/prefill_wire.h"

namespace isthmus {

HttpCall Peer::call(std::string_view method, std::string_view path) const {
  HttpCall c;
  c.url = url;
  while (c.url.path.ends_with('/')) c.url.path.pop_back();
  c.url.path += path;
  c.url.query.clear();
  c.method = method;
  if (!token.empty()) c.headers.add("Authorization", "Bearer " + token);
  return c;
}

Status peer_error(const Peer& peer, const Status& error) {
  return {error.code(), peer.name() + ": " + error.message()};
}

Result<HttpResponse> ask_peer(const HttpClient& http, const Peer& peer, const HttpCall& call) {
  Result<HttpResponse> reply = http.request(call);
  if (!reply.ok()) return peer_error(peer, reply.status());
  if (reply->status != 200) return peer_error(peer, parse_error(reply->status, reply->body));
  return reply;
}

Result<Json> ask_peer_json(const HttpClient& http, const Peer& peer, const HttpCall& call) {
  ASSIGN_OR_RETURN(const HttpResponse reply, ask_peer(http, peer, call));
  return parse_json(reply.body, peer.name() + call.url.path);
}

}  // namespace isthmus
