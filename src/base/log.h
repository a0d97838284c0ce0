// SPDX-License-Identifier: Apache-2.0
// The process log (stderr, one line an event, through spdlog). Any thread. An error is logged once, where it
// is handled. Never prompt text, tokens or secrets.
#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace isthmus {

// `role` stands in every line ("serve", "prefill"). Level: trace, debug, info, warn, error, off. False:
// unknown level.
bool init_log(std::string_view role, std::string_view level);

template <typename... Args>
void log_debug(spdlog::format_string_t<Args...> f, Args&&... args) {
  spdlog::debug(f, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(spdlog::format_string_t<Args...> f, Args&&... args) {
  spdlog::info(f, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warn(spdlog::format_string_t<Args...> f, Args&&... args) {
  spdlog::warn(f, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(spdlog::format_string_t<Args...> f, Args&&... args) {
  spdlog::error(f, std::forward<Args>(args)...);
}

}  // namespace isthmus
