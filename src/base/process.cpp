// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/fs.h"

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace isthmus {
namespace {

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, char* const* environment, int nice,
                         [[maybe_unused]] pid_t parent) {
  const sigset_t set = end_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGTERM);     // a killed parent takes its children along,
  if (getppid() != parent) _exit(127);  // also one that was killed before this took effect
#endif
  if (nice != 0) setpriority(PRIO_PROCESS, 0, nice);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // the parent's standard output is its own
  execve(argv[0], argv, environment);
  _exit(127);
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    if (added.count(entry.substr(0, entry.find('='))) == 0) all.push_back(entry);
  }
  for (const auto& [key, value] : added) all.push_back(key + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (std::string& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

}  // namespace

std::filesystem::path own_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

void block_end_signals() {
  const sigset_t set = end_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write past the limit on file sizes then fails as on a full disk
}

int wait_for_end_signal() {
  const sigset_t set = end_signals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number;
}

bool end_signal_pending(int wait_ms) {
  const sigset_t set = end_signals();
  const timespec timeout{wait_ms / 1000, (wait_ms % 1000) * 1'000'000L};
  return sigtimedwait(&set, nullptr, &timeout) > 0;
}

Result<Child> Child::spawn(const std::vector<std::string>& argv, const SpawnOptions& options) {
  std::vector<std::string> args = argv;
  std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> arg_pointers = pointers(args);
  const std::vector<char*> environment_pointers = pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return Status(Code::kResourceExhausted, std::string("fork: ") + std::strerror(errno));
  if (pid == 0) become(arg_pointers.data(), environment_pointers.data(), options.nice, parent);
  return Child(pid);
}

bool Child::running() {
  if (pid_ <= 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void Child::ask_to_end() {
  if (running()) kill(pid_, SIGTERM);
}

Child::~Child() {
  ask_to_end();
  for (int i = 0; i < 2000 && running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

namespace {

sockaddr_in loopback_address(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

Status check_loopback_port(uint16_t port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reuse = 1;  // as servers do: a connection that is still closing does not count
  sockaddr_in address = loopback_address(port);
  if (fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
      bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return {};
  }
  return {Code::kUnavailable, "port " + std::to_string(port) + ": " + std::strerror(errno)};
}

Result<uint16_t> free_loopback_port() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback_address(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || bind(fd.get(), generic, size) != 0 || getsockname(fd.get(), generic, &size) != 0) {
    return Status(Code::kIo, std::string("no free port: ") + std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

}  // namespace isthmus
