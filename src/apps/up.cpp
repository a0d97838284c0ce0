// SPDX-License-Identifier: Apache-2.0
// isthmus up: both roles on this machine as child processes over loopback, with a fresh secret between them.
#include <cstdio>
#include <memory>

#include "apps/child_server.h"
#include "apps/command.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"

namespace isthmus {
namespace {

// The decode engine answers people; the prefill engine takes what is left: by its priority, and because its
// threads soon sleep when they wait for each other, while the decode engine's spin between the regions of a
// step. A decode thread that sleeps there finds its core taken, for a whole time slice (docs/performance.md).
SpawnOptions prefill_spawn() {
  return {.nice = 10, .environment = {{"GOMP_SPINCOUNT", "10000"}}};
}

struct UpOptions {
  CommonOptions common;
  uint16_t port = 8012;
  uint16_t prefill_port = 8000;
  uint16_t handoff_port = 8021;
  std::string capture = "project";
  std::filesystem::path store;
  std::vector<std::string> serve_args;
  std::vector<std::string> prefill_args;
};

Status choose_ports(UpOptions& o) {
  for (uint16_t* port : {&o.port, &o.prefill_port, &o.handoff_port}) {
    if (*port != 0) {
      TRY(check_loopback_port(*port));  // else the health of whoever listens there would pass for our child's
    } else {
      ASSIGN_OR_RETURN(*port, free_loopback_port());
    }
  }
  return {};
}

// A secret of this run, readable by us alone; the file goes with the object.
class SecretFile {
 public:
  static Result<SecretFile> create() {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) return Status(Code::kNotFound, "folder for temporary files ($TMPDIR): " + error.message());
    const auto path = folder / ("isthmus-" + random_hex(8) + ".token");
    const std::string secret = random_hex(32) + "\n";
    const std::span<const std::byte> parts[] = {as_byte_span(secret)};
    PosixFs fs;
    TRY(fs.write_file(path, parts));
    return SecretFile(path);
  }
  SecretFile(SecretFile&& o) noexcept : path_(std::move(o.path_)) { o.path_.clear(); }
  ~SecretFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit SecretFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

std::vector<std::string> command_line(const char* role, const UpOptions& o,
                                      const std::filesystem::path& token) {
  return {own_executable().string(), role,           "--model",
          o.common.model.string(),   "--cache",      o.common.cache.string(),
          "--auth-token-file",       token.string(), "--log",
          o.common.log_level,        "--threads",    std::to_string(o.common.threads)};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Status run_both(UpOptions& o) {
  TRY(choose_ports(o));
  ASSIGN_OR_RETURN(const SecretFile secret, SecretFile::create());
  const std::filesystem::path token = o.common.token_file.empty() ? secret.path() : o.common.token_file;
  std::vector<std::string> prefill = command_line("prefill", o, token);
  append(prefill, {"--port", std::to_string(o.prefill_port), "--decoder", loopback_url(o.port)});
  append(prefill, o.prefill_args);
  std::vector<std::string> serve = command_line("serve", o, token);
  append(serve, {"--port", std::to_string(o.port), "--handoff-port", std::to_string(o.handoff_port),
                 "--prefill", loopback_url(o.prefill_port), "--capture", o.capture});
  if (!o.store.empty()) append(serve, {"--store", o.store.string()});
  append(serve, o.serve_args);

  ASSIGN_OR_RETURN(Child serve_child, Child::spawn(serve, {}));
  ASSIGN_OR_RETURN(Child prefill_child, Child::spawn(prefill, prefill_spawn()));
  TRY(wait_until_up(prefill_child, "prefill", o.prefill_port));
  TRY(wait_until_up(serve_child, "serve", o.port));
  std::puts(dump_json({{"ready", true},
                       {"url", loopback_url(o.port)},
                       {"prefill_url", loopback_url(o.prefill_port)},
                       {"handoff_port", o.handoff_port},
                       {"serve_pid", serve_child.pid()},
                       {"prefill_pid", prefill_child.pid()}})
                .c_str());
  std::fflush(stdout);
  Status ended;
  while (ended.ok() && !end_signal_pending(200)) {
    if (!serve_child.running()) ended = Status(Code::kUnavailable, "serve ended; its log is above");
    if (!prefill_child.running()) ended = Status(Code::kUnavailable, "prefill ended; its log is above");
  }
  serve_child.ask_to_end();
  prefill_child.ask_to_end();
  return ended;
}

int run_up(UpOptions& o) {
  if (const Status s = prepare_process("up", o.common); !s.ok()) return fail(s);
  const Status ended = run_both(o);
  return ended.ok() ? 0 : fail(ended);
}

}  // namespace

Command add_up(CLI::App& parent) {
  auto o = std::make_shared<UpOptions>();
  CLI::App* app = parent.add_subcommand("up", "run both roles on this machine: the pair in one command");
  add_common_options(*app, o->common);
  app->add_option("--port", o->port, "port of the OpenAI API; 0: a free one")->capture_default_str();
  app->add_option("--prefill-port", o->prefill_port, "port of the prefill engine; 0: a free one")
      ->capture_default_str();
  app->add_option("--handoff-port", o->handoff_port, "port for finished cache; 0: a free one")
      ->capture_default_str();
  app->add_option("--capture", o->capture,
                  "project: layer inputs through the decoder's weights; kv: the prefill engine's own rows")
      ->check(CLI::IsMember({"project", "kv"}))
      ->capture_default_str();
  app->add_option("--store", o->store, "folder of the SSD block store; absent: memory only");
  app->add_option("--serve-arg", o->serve_args, "passed on to serve (repeatable)")->allow_extra_args(false);
  app->add_option("--prefill-arg", o->prefill_args, "passed on to prefill (repeatable)")
      ->allow_extra_args(false);
  return {app, [o] { return run_up(*o); }};
}

}  // namespace isthmus
