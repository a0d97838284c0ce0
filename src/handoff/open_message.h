// SPDX-License-Identifier: Apache-2.0
// OPEN and the other JSON messages: what a transfer is, and the comparison of what a sender opens with what
// the decoder expects. Pure functions.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "flow/transfer.h"

namespace isthmus::handoff {

// Plane bytes of rows [first, last).
uint64_t total_plane_bytes(const TransferSpec& spec);

Json open_json(const TransferSpec& spec);
// The transfer that an OPEN describes, for readers that expect none. kInvalidArgument, kUnsupported, kCorrupt
// for a message that contradicts itself.
Result<TransferSpec> parse_open(const Json& opened);
// Every field of `opened` against what is expected; kMismatch names the field and both values, kCorrupt for a
// broken message.
Status check_open(const Json& opened, const TransferSpec& expected);

Json abort_json(const Status& why);
Status abort_status(const Json& j);  // what the peer said, as a status of ours

}  // namespace isthmus::handoff
