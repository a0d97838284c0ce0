// SPDX-License-Identifier: Apache-2.0
#include "model/teacher_forced.h"

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

constexpr float kTolerance = 1e-4F;  // of the goldens: f32 sums in another order

using Rows = std::vector<std::vector<float>>;

// Appends rows and checks that positions are consecutive from `first` on.
LogitsRow collect_into(Rows& rows, int64_t first) {
  return [&rows, first](int64_t position, std::span<const float> logits) {
    EXPECT_EQ(position, first + static_cast<int64_t>(rows.size()));
    rows.emplace_back(logits.begin(), logits.end());
    return Status();
  };
}

TEST(TeacherForced, ReferencePromptGivesTheGoldensLogits) {
  const auto model = load(golden("llama_tiny"), Arithmetic::kReferenceF32);
  ASSERT_NE(model, nullptr);
  const Safetensors expected = Safetensors::open(golden("llama_tiny") / "expected.safetensors").take();
  const std::vector<TokenId> ids = values<TokenId>(expected, "input_ids");
  const std::vector<int32_t> positions = values<int32_t>(expected, "positions");
  const std::vector<float> logits = values<float>(expected, "logits");
  const auto vocab = static_cast<size_t>(model->config().vocab);
  KvPool pool = KvPool::create(model->kv_shape(), 256).take();
  Sequence seq(pool);
  Rows rows;
  ASSERT_TRUE(force_prompt(*model, ids, seq, collect_into(rows, 0)).ok());
  ASSERT_EQ(rows.size(), 200u);
  for (size_t i = 0; i < positions.size(); ++i) {
    EXPECT_LE(largest_difference(rows[static_cast<size_t>(positions[i])],
                                 std::span(logits).subspan(i * vocab, vocab)),
              kTolerance)
        << "position " << positions[i];
  }
}

class TeacherForcedArithmetic : public testing::TestWithParam<Arithmetic> {};

TEST_P(TeacherForcedArithmetic, PromptRowsAreThoseOfPrompt) {
  const auto model = load(golden("qwen3_tiny"), GetParam());
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> ids = counted_ids(150, model->config().vocab, 5);
  KvPool pool = KvPool::create(model->kv_shape(), 1024).take();
  Sequence plain(pool), chunked(pool), forced(pool);
  prompt(*model, ids, plain, 512);
  std::vector<int64_t> lengths;
  const auto note = [&](int64_t length) {
    lengths.push_back(length);
    return Status();
  };
  ASSERT_TRUE(read_prompt(*model, ids, chunked, nullptr, 64, note).ok());
  EXPECT_EQ(lengths, (std::vector<int64_t>{64, 128, 150}));
  Rows rows;
  ASSERT_TRUE(force_prompt(*model, ids, forced, collect_into(rows, 0)).ok());
  EXPECT_EQ(rows.size(), 150u);
  EXPECT_TRUE(cache_bytes(chunked) == cache_bytes(plain));
  EXPECT_TRUE(cache_bytes(forced) == cache_bytes(plain));
}

TEST_P(TeacherForcedArithmetic, StepRowsAreThoseOfSingleSteps) {
  const auto model = load(golden("llama_tiny"), GetParam());
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> ids = counted_ids(90, model->config().vocab, 2);
  KvPool pool = KvPool::create(model->kv_shape(), 512).take();
  Sequence one_by_one(pool), forced(pool);
  const std::span<const TokenId> all(ids), head = all.first(50), rest = all.subspan(50);
  prompt(*model, head, one_by_one, 64);
  prompt(*model, head, forced, 64);
  Rows rows;
  ASSERT_TRUE(force_steps(*model, rest, forced, collect_into(rows, 50)).ok());
  ASSERT_EQ(rows.size(), rest.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const std::vector<float> single = step(*model, rest[i], one_by_one);
    EXPECT_TRUE(rows[i] == single) << "row " << i;
  }
  EXPECT_TRUE(cache_bytes(forced) == cache_bytes(one_by_one));
}

std::string arithmetic_name(const testing::TestParamInfo<Arithmetic>& test) {
  return test.param == Arithmetic::kProduction ? "production" : "reference";
}
INSTANTIATE_TEST_SUITE_P(Both, TeacherForcedArithmetic,
                         testing::Values(Arithmetic::kProduction, Arithmetic::kReferenceF32),
                         arithmetic_name);

TEST(TeacherForced, ErrorsEndTheRun) {
  const auto model = load(golden("llama_tiny"));
  ASSERT_NE(model, nullptr);
  std::vector<TokenId> ids = counted_ids(100, model->config().vocab, 2);
  KvPool pool = KvPool::create(model->kv_shape(), 256).take();
  int calls = 0;
  const LogitsRow third = [&](int64_t, std::span<const float>) {
    return ++calls < 3 ? Status() : Status(Code::kCancelled, "enough");
  };
  Sequence a(pool), b(pool);
  EXPECT_EQ(force_prompt(*model, ids, a, third).code(), Code::kCancelled);
  EXPECT_EQ(calls, 3);
  ids[99] = model->config().vocab;
  calls = -1000;
  EXPECT_EQ(force_steps(*model, ids, b, third).code(), Code::kInvalidArgument);
  EXPECT_EQ(calls, -1000 + 96);
}

}  // namespace
}  // namespace isthmus
