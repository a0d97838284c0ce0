// SPDX-License-Identifier: Apache-2.0
// The subcommands of the binary. Each file of this folder parses its options, builds its objects, runs, and
// returns an exit code: 0 done, 1 failed, 2 wrong usage. A command registers itself on the CLI and is run
// after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/http_message.h"

namespace isthmus {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

Command add_serve(CLI::App& parent);
Command add_prefill(CLI::App& parent);
Command add_up(CLI::App& parent);
Command add_ask(CLI::App& parent);
Command add_bench(CLI::App& parent);
Command add_tokenize(CLI::App& parent);
Command add_inspect(CLI::App& parent);
Command add_verify_blocks(CLI::App& parent);
Command add_diff_state(CLI::App& parent);
Command add_export_projection(CLI::App& parent);
Command add_convert(CLI::App& parent);
Command add_doctor(CLI::App& parent);
Command add_eval(CLI::App& parent);

// Options that several commands share.
struct CommonOptions {
  std::filesystem::path model;
  std::filesystem::path cache;  // $ISTHMUS_CACHE, else ~/.cache/isthmus
  std::filesystem::path token_file;
  std::string log_level = "info";
  int threads = 0;
};
void add_common_options(CLI::App& app, CommonOptions& o);
// Each of them alone, for tools that need no more.
std::filesystem::path default_model();
CLI::Validator finite_range(double least, double most);  // CLI::Range lets "nan" pass
// How a role keeps the weights that prompts are multiplied with.
struct PromptWeightFlags {
  std::string form = "bf16";
  bool no_packed_file = false;
};
void add_prompt_weight_options(CLI::App& app, PromptWeightFlags& o);
CLI::Option* add_prompt_form_option(CLI::App& app, std::string& form);
void add_cache_option(CLI::App& app, std::filesystem::path& cache);
void add_token_option(CLI::App& app, std::filesystem::path& token_file);
Result<std::string> read_token(const std::filesystem::path& token_file);  // "" without a file
Status prepare_process(const char* role, const CommonOptions& o);         // signals, log

// Where a role listens, and what protects it.
struct NetworkOptions {
  std::string bind = "127.0.0.1";
  std::vector<std::string> hosts;
  TlsOptions tls;
  bool insecure_lan = false;

  bool loopback() const { return bind == "127.0.0.1" || bind == "localhost" || bind == "::1"; }
};
void add_network_options(CLI::App& app, NetworkOptions& o);
// Off loopback a token is needed, and the user's word that the wire may be read: the handoff is not
// encrypted.
Status check_exposure(const NetworkOptions& o, const std::string& token);

int fail(const Status& status);  // prints it, returns 1

}  // namespace isthmus
