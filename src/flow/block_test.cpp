// SPDX-License-Identifier: Apache-2.0
#include "flow/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"

namespace isthmus {
namespace {

// Keys are addresses that other processes, builds and languages must compute alike; the golden file comes
// from tests/block_keys.py, which shares no code with us.
TEST(BlockKey, ChainsEqualTheGoldenFile) {
  const auto text = read_text_file(test_data("block/keys.json"), 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  const auto golden = parse_json(*text, "golden");
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto ids = golden->at("ids").get<std::vector<TokenId>>();
  const size_t block_tokens = golden->at("block_tokens").get<size_t>();
  ASSERT_EQ(ids.size(), 1000u);
  std::set<std::string> all;
  for (const auto& [name, expected] : golden->at("keys").items()) {
    Source source{*parse_source_kind(name), {}};
    if (source.kind != SourceKind::kNative) {
      source.producer = *Digest::from_hex(golden->at("producer").get<std::string>());
    }
    BlockKey key = root_key(*Digest::from_hex(golden->at("identity").get<std::string>()));
    std::vector<std::string> keys;
    for (size_t first = 0; first < ids.size(); first += block_tokens) {
      const size_t count = std::min(block_tokens, ids.size() - first);
      key = block_key(key, source, std::span(ids).subspan(first, count));
      keys.push_back(key.hex());
      all.insert(key.hex());
    }
    EXPECT_EQ(keys, expected.get<std::vector<std::string>>()) << name;
  }
  EXPECT_EQ(all.size(), 12u) << "no two sources share a key";
}

}  // namespace
}  // namespace isthmus
