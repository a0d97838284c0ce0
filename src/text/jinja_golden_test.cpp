// SPDX-License-Identifier: Apache-2.0
// Every template with every conversation, and a line for every construct, against what Python's jinja2 made
// of them (tests/golden/templates). Where it raised, we must fail too.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/json.h"
#include "base/test_data.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"

namespace isthmus::jinja {
namespace {

// Noon UTC on 26 July 2024: the same day in nearly every time zone.
class FrozenClock final : public Clock {
 public:
  MonotonicTime now() const override { return {}; }
  std::chrono::system_clock::time_point wall_now() const override {
    return std::chrono::system_clock::from_time_t(1721995200);
  }
};

std::string text_file(const std::string& name) {
  std::ifstream in(test_data("templates/" + name), std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

Json json_file(const std::string& name) {
  Result<Json> json = parse_json(text_file(name), name);
  EXPECT_TRUE(json.ok()) << json.status().to_string();
  return json.ok() ? json.take() : Json();
}

Result<std::string> rendered(std::string_view source, const Json& variables) {
  ASSIGN_OR_RETURN(const Block block, parse_template(source));
  Variables values;
  for (const auto& [name, json] : variables.items()) {
    ASSIGN_OR_RETURN(Value value, from_json(json));
    values.emplace_back(name, std::move(value));
  }
  return render(block, values, Limits{}, FrozenClock{});
}

void expect_same(const Json& expected, const Result<std::string>& got, const std::string& what) {
  if (expected.contains("error")) {
    EXPECT_FALSE(got.ok()) << what << "\nreference: " << expected["error"]
                           << "\ngot: " << (got.ok() ? *got : "");
    return;
  }
  ASSERT_TRUE(got.ok()) << what << "\n" << got.status().to_string();
  EXPECT_EQ(*got, expected["text"].get<std::string>()) << what;
}

TEST(JinjaGolden, TemplatesRenderAsTheReference) {
  const Json conversations = json_file("conversations.json");
  size_t rows = 0;
  const Json renderings = json_file("renderings.json");
  for (const auto& [name, expected] : renderings["templates"].items()) {
    const std::string source = text_file(name + ".jinja");
    for (const auto& [talk_name, row] : expected.items()) {
      const Json& talk = conversations[talk_name];
      Json variables = talk.value("extra", Json::object());
      variables["messages"] = talk["messages"];
      variables["tools"] = talk.contains("tools") ? conversations["TOOLS"] : Json();
      variables["documents"] = nullptr;
      variables["add_generation_prompt"] = talk.value("add_generation_prompt", true);
      variables["bos_token"] = "<s>";
      variables["eos_token"] = "</s>";
      expect_same(row, rendered(source, variables), name + " with " + talk_name);
      rows += row.contains("text") ? 1 : 0;
    }
  }
  EXPECT_GE(rows, 140U);
}

TEST(JinjaGolden, SnippetsRenderAsTheReference) {
  const Json variables = Json::object({{"data", json_file("snippet_data.json")}});
  const Json renderings = json_file("renderings.json");
  for (const Json& row : renderings["snippets"]) {
    const std::string source = row["source"].get<std::string>();
    expect_same(row, rendered(source, variables), source);
  }
  EXPECT_GE(renderings["snippets"].size(), 100U);
}

}  // namespace
}  // namespace isthmus::jinja
