// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "apps/command.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/process.h"

namespace isthmus {
namespace {

std::filesystem::path default_cache() {
  if (const char* set = std::getenv("ISTHMUS_CACHE"); set != nullptr && *set != '\0') return set;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".cache" / "isthmus";
}

}  // namespace

std::filesystem::path default_model() {
  return default_cache() / "models" / "smollm2-135m-instruct-q4_1.gguf";
}

void add_cache_option(CLI::App& app, std::filesystem::path& cache) {
  cache = default_cache();
  app.add_option("--cache", cache, "folder for digests and other derived files")->capture_default_str();
}

void add_token_option(CLI::App& app, std::filesystem::path& token_file) {
  app.add_option("--auth-token-file", token_file,
                 "file with the secret both boxes hold; needed off loopback (the first line counts)");
}

void add_common_options(CLI::App& app, CommonOptions& o) {
  o.model = default_model();
  app.add_option("--model", o.model, "GGUF file or Hugging Face folder")->capture_default_str();
  add_cache_option(app, o.cache);
  add_token_option(app, o.token_file);
  app.add_option("--threads", o.threads, "compute threads; 0: all cores")->capture_default_str();
  app.add_option("--log", o.log_level, "trace, debug, info, warn, error or off")->capture_default_str();
}

CLI::Validator finite_range(double least, double most) {
  const std::string range = "[" + std::to_string(least) + " - " + std::to_string(most) + "]";
  const auto check = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return "expected a number in " + range + ", got " + text;
  };
  return CLI::Validator(check, "FLOAT in " + range);
}

CLI::Option* add_prompt_form_option(CLI::App& app, std::string& form) {
  return app
      .add_option("--prefill-weights", form,
                  "weights that prompts are multiplied with: bf16, nearest to the file; int8, faster and "
                  "coarser; fp8, the values of an FP8 checkpoint")
      ->check(CLI::IsMember({"bf16", "int8", "fp8"}))
      ->capture_default_str();
}

void add_prompt_weight_options(CLI::App& app, PromptWeightFlags& o) {
  add_prompt_form_option(app, o.form);
  app.add_flag(
      "--no-packed-file", o.no_packed_file,
      "do not keep these weights, ready to multiply, in the cache folder: saves two bytes of disk for each "
      "weight, and starts take longer");
}

Result<std::string> read_token(const std::filesystem::path& token_file) {
  if (token_file.empty()) return std::string();
  ASSIGN_OR_RETURN(std::string token, read_text_file(token_file, 4096));
  token = token.substr(0, token.find_first_of("\r\n"));
  if (token.size() < 16) {
    return Status(Code::kInvalidArgument, token_file.string() + ": a token has at least 16 characters");
  }
  return token;
}

Status prepare_process(const char* role, const CommonOptions& o) {
  if (!init_log(role, o.log_level))
    return {Code::kInvalidArgument, "--log: unknown level '" + o.log_level + "'"};
  block_end_signals();
  if (o.threads < 0 || o.threads > 1024) return {Code::kInvalidArgument, "--threads: expected 0 to 1024"};
  return {};
}

void add_network_options(CLI::App& app, NetworkOptions& o) {
  app.add_option("--bind", o.bind, "address to listen on")->capture_default_str();
  app.add_option("--host", o.hosts,
                 "a name under which clients reach this machine; others are refused (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--tls-cert", o.tls.cert_file, "PEM certificate: HTTP is served over TLS");
  app.add_option("--tls-key", o.tls.key_file, "PEM key of the certificate");
  app.add_option("--tls-ca", o.tls.ca_file,
                 "PEM authorities that must have signed the other side's certificate");
  app.add_flag("--insecure-lan", o.insecure_lan,
               "listen off loopback although finished cache crosses the network unencrypted");
}

Status check_exposure(const NetworkOptions& o, const std::string& token) {
  if (o.loopback()) return {};
  if (token.empty())
    return {Code::kInvalidArgument, "--bind " + o.bind + ": off loopback, --auth-token-file is needed"};
  if (!o.insecure_lan) {
    return {
        Code::kInvalidArgument,
        "--bind " + o.bind + ": the handoff is authenticated but not encrypted; --insecure-lan accepts that"};
  }
  return {};
}

int fail(const Status& status) {
  std::fprintf(stderr, "isthmus: %s\n", status.message().c_str());
  return status.code() == Code::kInvalidArgument ? 2 : 1;
}

}  // namespace isthmus
