// SPDX-License-Identifier: Apache-2.0
// isthmus tokenize: text to ids with the decoder's tokenizer, from arguments or standard input.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "apps/command.h"
#include "apps/loaded_model.h"

namespace isthmus {
namespace {

struct TokenizeOptions {
  CommonOptions common;
  std::string text;
  bool special = false;
  bool json = false;
};

int run_tokenize(const TokenizeOptions& o) {
  const auto text = load_text(o.common.model);
  if (!text.ok()) return fail(text.status());
  const std::string input = !o.text.empty() ? o.text
                                            : std::string(std::istreambuf_iterator<char>(std::cin),
                                                          std::istreambuf_iterator<char>());
  EncodeOptions encode;
  encode.parse_special = o.special;
  const auto ids = text->tokenizer.encode(input, encode);
  if (!ids.ok()) return fail(ids.status());
  if (o.json) {
    std::puts(dump_json({{"tokens", ids->size()}, {"ids", *ids}}).c_str());
    return 0;
  }
  for (const TokenId id : *ids) {
    std::printf("%d\t%s\n", id, dump_json(Json(text->tokenizer.token_bytes(id))).c_str());
  }
  std::fprintf(stderr, "%zu tokens\n", ids->size());
  return 0;
}

}  // namespace

Command add_tokenize(CLI::App& parent) {
  auto o = std::make_shared<TokenizeOptions>();
  CLI::App* app = parent.add_subcommand("tokenize", "show the tokens of a text");
  add_common_options(*app, o->common);
  app->add_option("text", o->text, "the text; standard input when absent");
  app->add_flag("--special", o->special, "control-token spellings in the text become control tokens");
  app->add_flag("--json", o->json, "one JSON object instead of a table");
  return {app, [o] { return run_tokenize(*o); }};
}

}  // namespace isthmus
