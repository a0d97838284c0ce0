// SPDX-License-Identifier: Apache-2.0
// The subcommands of the binary. Each file of this folder parses its options, builds its objects, runs, and
// returns an exit code: 0 done, 1 failed, 2 wrong usage. A command registers itself on the CLI and is run
// after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "base/status.h"

namespace isthmus {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

Command add_serve(CLI::App& parent);
Command add_prefill(CLI::App& parent);
Command add_up(CLI::App& parent);
Command add_ask(CLI::App& parent);
Command add_tokenize(CLI::App& parent);
Command add_inspect(CLI::App& parent);
Command add_verify_blocks(CLI::App& parent);
Command add_diff_state(CLI::App& parent);
Command add_export_projection(CLI::App& parent);
Command add_convert(CLI::App& parent);
Command add_doctor(CLI::App& parent);

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
void add_cache_option(CLI::App& app, std::filesystem::path& cache);
void add_token_option(CLI::App& app, std::filesystem::path& token_file);
Result<std::string> read_token(const std::filesystem::path& token_file);  // "" without a file
Status prepare_process(const char* role, const CommonOptions& o);         // signals, log

int fail(const Status& status);  // prints it, returns 1

}  // namespace isthmus
