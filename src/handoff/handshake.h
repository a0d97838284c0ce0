// SPDX-License-Identifier: Apache-2.0
// The handshake before the first frame: both ends prove that they hold the shared token without sending it,
// and the sender names its transfer. HMAC-SHA256 over a role word, both nonces and the transfer id; compared
// in constant time. Byte table: docs/formats/handoff.md. Blocking, on the connection's own thread.
#pragma once

#include <string>

#include "base/status.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

// Decode box. Returns the transfer id (32 hex digits). Errors: kUnauthenticated, kCorrupt, and the stream's.
Result<std::string> accept_handshake(ByteStream& stream, const std::string& token, const IoLimits& limits);

// Prefill box. Errors: kUnauthenticated (either side refused the other), kUnsupported (version), and the
// stream's.
Status offer_handshake(ByteStream& stream, const std::string& token, const std::string& transfer_id,
                       const IoLimits& limits);

}  // namespace isthmus::handoff
