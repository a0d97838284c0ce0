// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <utility>

namespace isthmus {

Result<std::jthread> start_thread(std::function<void(std::stop_token)> body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::exception& e) {
    return Status(Code::kResourceExhausted, std::string("no thread could be started: ") + e.what());
  }
}

}  // namespace isthmus
