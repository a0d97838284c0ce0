// SPDX-License-Identifier: Apache-2.0
// Small requests to a configured peer: the target below its URL, the bearer token, JSON out of a 200 and a
// Status out of everything else. Pure but for the request; any thread. Messages name the peer.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "net/http_client.h"

namespace isthmus {

struct Peer {
  Url url;            // as configured; its path is a prefix
  std::string token;  // empty: none is sent

  std::string name() const { return url.to_string(); }
  // A call to `path` below the URL, with Authorization.
  HttpCall call(std::string_view method, std::string_view path) const;
};

// kUnavailable, kDeadlineExceeded, kCancelled and so on as HttpClient; the peer's own error when it sent one.
Status peer_error(const Peer& peer, const Status& error);
Result<HttpResponse> ask_peer(const HttpClient& http, const Peer& peer, const HttpCall& call);
Result<Json> ask_peer_json(const HttpClient& http, const Peer& peer, const HttpCall& call);

}  // namespace isthmus
