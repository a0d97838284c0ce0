// SPDX-License-Identifier: Apache-2.0
// The binary: `isthmus COMMAND [options]`.
#include <cstdio>

#include "apps/command.h"

int main(int argc, char** argv) {
  CLI::App app("isthmus: one engine reads the prompt, another writes the answer");
  app.set_version_flag("--version", std::string("isthmus ") + ISTHMUS_VERSION);
  app.require_subcommand(1);
  const isthmus::Command commands[] = {
      isthmus::add_up(app),         isthmus::add_serve(app),
      isthmus::add_prefill(app),    isthmus::add_ask(app),
      isthmus::add_bench(app),      isthmus::add_doctor(app),
      isthmus::add_inspect(app),    isthmus::add_verify_blocks(app),
      isthmus::add_diff_state(app), isthmus::add_export_projection(app),
      isthmus::add_convert(app),    isthmus::add_eval(app),
      isthmus::add_tokenize(app),
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // 0: --help, --version
  }
  for (const isthmus::Command& c : commands) {
    if (c.app->parsed()) return c.run();
  }
  return 2;
}
