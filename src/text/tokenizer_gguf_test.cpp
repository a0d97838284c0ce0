// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/hash.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace isthmus {
namespace {

// Metadata of a GGUF file without tensors; values are kept encoded, so that a row can replace or remove any
// of them.
class Metadata {
 public:
  void text(const std::string& key, const std::string& v) { values_[key] = number(8, 4) + sized(v); }
  void u32(const std::string& key, uint32_t v) { values_[key] = number(4, 4) + number(v, 4); }
  void boolean(const std::string& key, bool v) { values_[key] = number(7, 4) + number(v ? 1 : 0, 1); }
  void texts(const std::string& key, const std::vector<std::string>& vs) {
    std::string out = number(9, 4) + number(8, 4) + number(vs.size(), 8);
    for (const std::string& v : vs) out += sized(v);
    values_[key] = out;
  }
  void ints(const std::string& key, const std::vector<int32_t>& vs) {
    std::string out = number(9, 4) + number(5, 4) + number(vs.size(), 8);
    for (const int32_t v : vs) out += number(static_cast<uint32_t>(v), 4);
    values_[key] = out;
  }
  void remove(const std::string& key) { values_.erase(key); }

  std::string bytes() const {
    std::string out = "GGUF" + number(3, 4) + number(0, 8) + number(values_.size(), 8);
    for (const auto& [key, value] : values_) out += sized(key) + value;
    return out;
  }

 private:
  static std::string number(uint64_t v, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out.push_back(static_cast<char>(static_cast<uint8_t>(v >> (8 * i))));
    return out;
  }
  static std::string sized(const std::string& s) { return number(s.size(), 8) + s; }
  std::map<std::string, std::string> values_;
};

constexpr TokenId kControl = 257;
constexpr TokenId kEndOfTurn = 258;
constexpr TokenId kTool = 259;

Metadata small_metadata(const std::string& pre) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.push_back(byte_alphabet_encode(std::string(1, static_cast<char>(b))));
  tokens.insert(tokens.end(), {"ab", "<|bos|>", "<|im_end|>", "<tool_call>", "[PAD260]"});
  std::vector<int32_t> types(tokens.size(), 1);
  types[kControl] = types[kEndOfTurn] = 3;
  types[kTool] = 4;
  types[260] = 5;
  Metadata m;
  m.text("tokenizer.ggml.model", "gpt2");
  m.text("tokenizer.ggml.pre", pre);
  m.texts("tokenizer.ggml.tokens", tokens);
  m.ints("tokenizer.ggml.token_type", types);
  m.texts("tokenizer.ggml.merges", {"a b"});
  m.u32("tokenizer.ggml.bos_token_id", kControl);
  m.u32("tokenizer.ggml.eos_token_id", 0);
  return m;
}

Result<TokenizerSpec> load(const Metadata& m) {
  const std::string bytes = m.bytes();
  Result<GgufFile> file = GgufFile::parse(as_byte_span(bytes), "test.gguf");
  if (!file.ok()) return file.status();
  return tokenizer_spec_from_gguf(*file);
}

TEST(TokenizerGguf, FamiliesFollowFromTheName) {
  struct Row {
    std::string pre;
    std::vector<SplitRule> rules;
    bool nfc, ignore_merges, add_bos;
  };
  const std::vector<Row> rows = {
      {"gpt-2", {SplitRule::kGpt2}, false, false, false},
      {"smollm", {SplitRule::kDigits, SplitRule::kGpt2}, false, false, false},
      {"qwen2", {SplitRule::kQwen2}, true, false, false},
      {"deepseek-r1-qwen", {SplitRule::kQwen2}, true, false, false},
      {"llama-bpe", {SplitRule::kLlama3}, false, true, true},
      {"llama3", {SplitRule::kLlama3}, false, true, true},
      {"llama-v3", {SplitRule::kLlama3}, false, true, true},
  };
  for (const Row& row : rows) {
    const Result<TokenizerSpec> spec = load(small_metadata(row.pre));
    ASSERT_TRUE(spec.ok()) << spec.status().to_string();
    EXPECT_EQ(spec->split_rules, row.rules) << row.pre;
    EXPECT_EQ(spec->nfc, row.nfc) << row.pre;
    EXPECT_EQ(spec->ignore_merges, row.ignore_merges) << row.pre;
    EXPECT_EQ(spec->add_bos, row.add_bos) << row.pre;
    EXPECT_EQ(spec->bos_id, kControl);
    EXPECT_EQ(spec->end_ids, (std::vector<TokenId>{0, kEndOfTurn}));  // <|im_end|> by its spelling
  }
}

TEST(TokenizerGguf, TokenTypesDecideWhatTextCanGive) {
  const Tokenizer t = Tokenizer::create(load(small_metadata("gpt-2")).take()).take();
  EXPECT_EQ(t.vocab_size(), 261u);
  EXPECT_EQ(t.encode("ab<|bos|>", {.parse_special = true}).take(), (std::vector<TokenId>{256, kControl}));
  EXPECT_EQ(t.encode("<tool_call>").take(), std::vector<TokenId>{kTool});
  EXPECT_EQ(t.encode("[PAD260]", {.parse_special = true}).take().size(), 8u);
  EXPECT_EQ(t.token_bytes(260), "");
}

TEST(TokenizerGguf, OptionalKeys) {
  Metadata m = small_metadata("llama-bpe");
  m.boolean("tokenizer.ggml.add_bos_token", false);
  m.u32("tokenizer.ggml.eot_token_id", 5);
  m.u32("tokenizer.ggml.eom_token_id", 6);
  m.boolean("tokenizer.ggml.add_eos_token", false);
  Result<TokenizerSpec> spec = load(m);
  ASSERT_TRUE(spec.ok());
  EXPECT_FALSE(spec->add_bos);
  EXPECT_EQ(spec->end_ids, (std::vector<TokenId>{0, 5, 6, kEndOfTurn}));

  m.remove("tokenizer.ggml.token_type");
  m.remove("tokenizer.ggml.bos_token_id");
  m.remove("tokenizer.ggml.add_bos_token");
  spec = load(m);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->added.empty());
  EXPECT_EQ(spec->bos_id, -1);
  EXPECT_FALSE(spec->add_bos);
}

TEST(TokenizerGguf, RefusesWhatItDoesNotKnow) {
  struct Row {
    std::function<void(Metadata&)> change;
    Code code;
    std::string says;
  };
  const std::vector<Row> rows = {
      {[](Metadata& m) { m.text("tokenizer.ggml.model", "llama"); }, Code::kUnsupported, "SentencePiece"},
      {[](Metadata& m) { m.text("tokenizer.ggml.model", "bert"); }, Code::kUnsupported, "got 'bert'"},
      {[](Metadata& m) { m.remove("tokenizer.ggml.model"); }, Code::kNotFound, "tokenizer.ggml.model"},
      {[](Metadata& m) { m.text("tokenizer.ggml.pre", "tekken"); }, Code::kUnsupported, "got 'tekken'"},
      {[](Metadata& m) { m.remove("tokenizer.ggml.pre"); }, Code::kNotFound, "tokenizer.ggml.pre"},
      {[](Metadata& m) { m.remove("tokenizer.ggml.tokens"); }, Code::kNotFound, "tokenizer.ggml.tokens"},
      {[](Metadata& m) { m.remove("tokenizer.ggml.merges"); }, Code::kNotFound, "tokenizer.ggml.merges"},
      {[](Metadata& m) {
         m.ints("tokenizer.ggml.token_type", {1, 1});
       },
       Code::kCorrupt, "2 token types for 261"},
      {[](Metadata& m) { m.ints("tokenizer.ggml.token_type", std::vector<int32_t>(261, 6)); },
       Code::kUnsupported, "token 0 has type 6"},
      {[](Metadata& m) { m.u32("tokenizer.ggml.bos_token_id", 261); }, Code::kCorrupt, "bos_token_id is 261"},
      {[](Metadata& m) { m.u32("tokenizer.ggml.eos_token_id", 4'000'000'000u); }, Code::kCorrupt,
       "eos_token_id"},
      {[](Metadata& m) { m.boolean("tokenizer.ggml.add_eos_token", true); }, Code::kUnsupported,
       "add_eos_token"},
      {[](Metadata& m) { m.boolean("tokenizer.ggml.add_space_prefix", true); }, Code::kUnsupported,
       "add_space_prefix"},
  };
  for (const Row& row : rows) {
    Metadata m = small_metadata("gpt-2");
    row.change(m);
    const Result<TokenizerSpec> spec = load(m);
    ASSERT_FALSE(spec.ok()) << row.says;
    EXPECT_EQ(static_cast<int>(spec.status().code()), static_cast<int>(row.code))
        << spec.status().to_string();
    EXPECT_NE(spec.status().message().find(row.says), std::string::npos) << spec.status().to_string();
  }
}

}  // namespace
}  // namespace isthmus
