// SPDX-License-Identifier: Apache-2.0
// Identity: the digest of everything that determines a decoder's cache bytes. Two engines exchange or share
// blocks only when their digests are equal; when they are not, the first differing field is named with both
// values. Values; any thread.
#pragma once

#include <string>

#include "base/hash.h"
#include "base/json.h"
#include "base/status.h"

namespace isthmus {

inline constexpr int kIdentityVersion = 1;

struct Identity {
  Json fields;    // an object; nested objects and arrays allowed
  Digest digest;  // SHA-256 of dump_canonical(fields)

  static Identity of(Json fields);
  // Recomputes the digest and compares it with the one a peer sent. Errors: kInvalidArgument, kMismatch.
  static Result<Identity> from_peer(const Json& fields, std::string_view digest_hex);
};

// "" when equal, else "rope.theta: 10000 here, 100000 there" for the first field (in key order) that differs.
std::string first_difference(const Json& here, const Json& there);

}  // namespace isthmus
