// SPDX-License-Identifier: Apache-2.0
// A role of our own binary as a child process on this machine: its address and the wait until it answers.
// Main thread. Starting and ending the process itself is base/process.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/process.h"
#include "base/status.h"

namespace isthmus {

std::string loopback_url(uint16_t port);

// Until GET /health says 200. kUnavailable: the child ended; kDeadlineExceeded: two minutes passed;
// kCancelled: an end signal came. `role` is for the message.
Status wait_until_up(Child& child, const char* role, uint16_t port);

}  // namespace isthmus
