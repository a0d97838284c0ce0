// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"
#include "text/nfc.h"
#include "text/tokenizer.h"

namespace isthmus {
namespace {

const std::filesystem::path kData = test_data("tokenizer");

std::string file(const std::string& name) {
  Result<std::string> text = read_text_file(kData / name, 4u << 20);
  EXPECT_TRUE(text.ok()) << text.status().to_string();
  return text.ok() ? *text : std::string();
}

TEST(TokenizerJson, EveryFamilyEqualsTheReference) {
  const Result<Json> golden = parse_json(file("family_cases.json"), "family_cases.json");
  ASSERT_TRUE(golden.ok());
  for (const std::string name : {"gpt2", "smollm", "qwen2", "llama3"}) {
    Result<TokenizerSpec> spec = tokenizer_spec_from_json(file("family_" + name + ".json"));
    ASSERT_TRUE(spec.ok()) << spec.status().to_string();
    EXPECT_EQ(spec->nfc, name == "qwen2");
    EXPECT_EQ(spec->ignore_merges, name == "llama3");
    EXPECT_EQ(spec->add_bos, name == "llama3");
    const Result<Tokenizer> t = Tokenizer::create(*spec);
    ASSERT_TRUE(t.ok()) << t.status().to_string();
    EXPECT_EQ(t->end_ids(),
              (std::vector<TokenId>{*t->find_token("<|end|>"), *t->find_token("<|endoftext|>")}));
    size_t cases = 0;
    for (const Json& c : (*golden)[name]) {
      const auto text = c["text"].get<std::string>();
      const auto parsed = c["parsed"].get<std::vector<TokenId>>();
      const auto plain = c["plain"].get<std::vector<TokenId>>();
      SCOPED_TRACE(name + " " + dump_ascii(c["text"]));
      EXPECT_EQ(t->encode(text, {.parse_special = true, .add_bos = false}).take(), parsed);
      EXPECT_EQ(t->encode(text, {.parse_special = false, .add_bos = false}).take(), plain);
      EXPECT_LE(t->least_tokens(text), std::min(parsed.size(), plain.size()));
      EXPECT_EQ(t->encode(text).take().size() != plain.size(), c["with_bos"].get<bool>());
      if (text.find("<|sep|>") == std::string::npos) {
        const std::string back = t->decode(plain, false);
        if (name == "qwen2") {
          EXPECT_EQ(normalize_nfc(back).take(), normalize_nfc(text).take());
        } else {
          EXPECT_EQ(back, text);
        }
      }
      ++cases;
    }
    EXPECT_GE(cases, 180u);
  }
}

// A small file that loads; each row changes one place.
Json valid() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
      "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

Result<TokenizerSpec> load(const Json& j, std::string_view config = {}) {
  return tokenizer_spec_from_json(dump_json(j), config);
}

TEST(TokenizerJson, AcceptsPublishedVariants) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"/model/merges", Json::parse(R"(["a b"])")},
      {"/model/unk_token", ""},
      {"/model/unk_token", "a"},
      {"/normalizer", Json::parse(R"({"type":"Sequence","normalizers":[{"type":"NFC"}]})")},
      {"/normalizer", Json::parse(R"({"type":"Sequence","normalizers":[]})")},
      {"/post_processor", nullptr},
      {"/decoder", nullptr},
      {"/pre_tokenizer", Json::parse(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})")},
      {"/model/type", nullptr},
  };
  for (const auto& [path, value] : rows) {
    Json j = valid();
    j[Json::json_pointer(path)] = value;
    if (path == "/model/type") j["model"].erase("type");  // files older than the field
    const Result<TokenizerSpec> spec = load(j);
    EXPECT_TRUE(spec.ok()) << path << " " << value << ": " << spec.status().to_string();
    EXPECT_TRUE(Tokenizer::create(*spec).ok()) << path;
  }
  const Result<TokenizerSpec> spec = load(valid());
  EXPECT_EQ(spec->bos_id, 3);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->tokens, (std::vector<std::string>{"a", "b", "ab", "<s>"}));
}

TEST(TokenizerJson, RefusesWhatMayChangeIds) {
  struct Row {
    std::string path;
    std::string value;
    Code code;
    std::string says;
  };
  const std::vector<Row> rows = {
      {"/model/type", R"("Unigram")", Code::kUnsupported, "expected type BPE"},
      {"/model/dropout", "0.1", Code::kUnsupported, "'dropout'"},
      {"/model/byte_fallback", "true", Code::kUnsupported, "'byte_fallback'"},
      {"/model/fuse_unk", "true", Code::kUnsupported, "'fuse_unk'"},
      {"/model/end_of_word_suffix", R"("</w>")", Code::kUnsupported, "'end_of_word_suffix'"},
      {"/model/novel", "1", Code::kUnsupported, "'novel' is not known"},
      {"/model/merges", "7", Code::kUnsupported, "merges"},
      {"/model/merges", R"([["a"]])", Code::kCorrupt, "merge 0"},
      {"/model/merges", R"([["a", 1]])", Code::kCorrupt, "merge 0"},
      {"/model/unk_token", R"("zz")", Code::kCorrupt, "unk_token 'zz'"},
      {"/model/vocab", "[]", Code::kUnsupported, "'vocab'"},
      {"/model/vocab", R"({"a": -1})", Code::kCorrupt, "expected an id for 'a'"},
      {"/model/vocab", R"({"a": 4000000000})", Code::kCorrupt, "id 4000000000"},
      {"/model/vocab", R"({"a": 0, "b": 0})", Code::kCorrupt, "is both"},
      {"/model/ignore_merges", "3", Code::kInvalidArgument, "ignore_merges"},
      {"/truncation", R"({"max_length": 512})", Code::kUnsupported, "'truncation'"},
      {"/padding", "{}", Code::kUnsupported, "'padding'"},
      {"/extra", "1", Code::kUnsupported, "'extra' is not known"},
      {"/normalizer", R"({"type": "Lowercase"})", Code::kUnsupported, "expected NFC"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}]})", Code::kUnsupported,
       "expected NFC"},
      {"/normalizer", "5", Code::kInvalidArgument, "type"},
      {"/pre_tokenizer", "null", Code::kUnsupported, "expected ByteLevel"},
      {"/pre_tokenizer", R"({"type": "Whitespace"})", Code::kUnsupported, "expected ByteLevel"},
      {"/pre_tokenizer/add_prefix_space", "true", Code::kUnsupported, "add_prefix_space"},
      {"/pre_tokenizer/novel", "true", Code::kUnsupported, "'novel' is not known"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false})",
       Code::kUnsupported, "is not one of"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Removed", "invert": false})",
       Code::kUnsupported, "expected behavior Isolated"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false})",
       Code::kUnsupported, "'String' is not known"},
      {"/post_processor", R"({"type": "RobertaProcessing"})", Code::kUnsupported, "post_processor"},
      {"/post_processor/single", R"([{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}])",
       Code::kUnsupported, "at most one token before it"},
      {"/post_processor/special_tokens", "{}", Code::kCorrupt, "expected one id"},
      {"/post_processor/special_tokens/<s>/ids", "[99]", Code::kCorrupt, "[99]"},
      {"/decoder", R"({"type": "WordPiece"})", Code::kUnsupported, "decoder"},
      {"/added_tokens/0/single_word", "true", Code::kUnsupported, "'single_word'"},
      {"/added_tokens/0/id", "0", Code::kCorrupt, "is both"},
      {"/added_tokens/0/id", "99999999", Code::kCorrupt, "expected below"},
      {"/added_tokens/0/id", "-1", Code::kCorrupt, "expected an id"},
      {"/added_tokens/0/content", R"("")", Code::kCorrupt, "content"},
      {"/added_tokens", "{}", Code::kUnsupported, "added_tokens"},
  };
  for (const Row& row : rows) {
    Json j = valid();
    j[Json::json_pointer(row.path)] = Json::parse(row.value);
    const Result<TokenizerSpec> spec = load(j);
    ASSERT_FALSE(spec.ok()) << row.path << " = " << row.value;
    EXPECT_EQ(static_cast<int>(spec.status().code()), static_cast<int>(row.code))
        << spec.status().to_string();
    EXPECT_NE(spec.status().message().find(row.says), std::string::npos) << spec.status().to_string();
  }
  for (const std::string_view bad : {"", "[", "[]", "3", "{}", R"({"model": 1})", R"({"model": {}})"}) {
    EXPECT_FALSE(tokenizer_spec_from_json(bad).ok()) << bad;
  }
}

TEST(TokenizerJson, ConfigNamesBosAndEos) {
  struct Row {
    std::string config;
    bool ok;
    TokenId bos;
    bool add_bos;
    std::vector<TokenId> ends;
  };
  const std::vector<Row> rows = {
      {R"({"bos_token": "<s>", "eos_token": "b"})", true, 3, true, {1}},
      {R"({"bos_token": {"content": "a"}, "eos_token": {"content": "ab"}, "add_bos_token": false})",
       true,
       0,
       false,
       {2}},
      {R"({"bos_token": null, "eos_token": null})", true, 3, true, {}},
      {R"({"eos_token": "zz"})", false, 0, false, {}},
      {R"({"eos_token": 5})", false, 0, false, {}},
      {R"({"add_eos_token": true})", false, 0, false, {}},
      {R"({"add_bos_token": 1})", false, 0, false, {}},
      {"{", false, 0, false, {}},
  };
  for (const Row& row : rows) {
    const Result<TokenizerSpec> spec = load(valid(), row.config);
    ASSERT_EQ(spec.ok(), row.ok) << row.config << " " << spec.status().to_string();
    if (!row.ok) continue;
    EXPECT_EQ(spec->bos_id, row.bos) << row.config;
    EXPECT_EQ(spec->add_bos, row.add_bos) << row.config;
    EXPECT_EQ(spec->end_ids, row.ends) << row.config;
  }
}

}  // namespace
}  // namespace isthmus
