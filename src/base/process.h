// SPDX-License-Identifier: Apache-2.0
// Processes and signals: starting our own binary as a child, ending it, and waiting for the signal that ends
// us. The only place with fork, exec and signal calls. Main thread, before others start (block_end_signals)
// or as said.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace isthmus {

std::filesystem::path own_executable();

// SIGINT and SIGTERM are kept for wait_for_end_signal; SIGPIPE and SIGXFSZ are ignored. Before any thread
// starts.
void block_end_signals();
int wait_for_end_signal();             // blocks; the signal's number
bool end_signal_pending(int wait_ms);  // true when one came; it is consumed

struct SpawnOptions {
  int nice = 0;                                    // added to our own priority value
  std::map<std::string, std::string> environment;  // added to ours
};

// A running child, whose standard output is our standard error. Dropped: asked to end (SIGTERM), killed after
// twenty seconds (a store may have blocks to write).
class Child {
 public:
  static Result<Child> spawn(const std::vector<std::string>& argv, const SpawnOptions& options);
  Child(Child&& o) noexcept : pid_(o.pid_) { o.pid_ = -1; }
  Child& operator=(Child&&) = delete;
  ~Child();
  pid_t pid() const { return pid_; }
  void ask_to_end();  // returns at once
  bool running();     // reaps it when it has ended

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

// A TCP port on loopback that was free a moment ago.
Result<uint16_t> free_loopback_port();
// kUnavailable when somebody listens on this port of the loopback address.
Status check_loopback_port(uint16_t port);

bool stderr_is_terminal();  // progress may rewrite its line

}  // namespace isthmus
