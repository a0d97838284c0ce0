// SPDX-License-Identifier: Apache-2.0
// The real SmolLM2-135M-Instruct (Q4_1) against an independent float64 decoder (tests/golden/smollm2).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kernels/rung.h"
#include "model/teacher_forced.h"
#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

constexpr float kReferenceBound = 1e-3F;  // f32 against float64, on logits of magnitude up to about 40
constexpr float kProductionBound = 1.2F;  // bf16 prompts and int8 activations of steps (0.61 seen)
constexpr double kTopOneAgreement =
    0.9;  // of production's greedy choice with the reference's, teacher-forced
// Mean KL between one rung and another, nats; bf16 prompts are 0.001 from the exact values.
constexpr double kRungKl = 0.0015;
constexpr size_t kRungTokens = 96;  // for each arithmetic; the scalar twins take their time

std::filesystem::path model_path() {
  const char* cache = std::getenv("ISTHMUS_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path root =
      cache != nullptr ? cache : std::filesystem::path(home == nullptr ? "" : home) / ".cache" / "isthmus";
  return root / "models" / "smollm2-135m-instruct-q4_1.gguf";
}

struct Expected {
  std::vector<TokenId> input, greedy;
  std::vector<float> first_logits;  // after the last prompt token, at `columns`
  std::vector<TokenId> top_ids;     // [steps, 4], best first
  std::vector<float> top_logits;    // [steps, 4]
};

class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(model_path()))
        << model_path() << " is missing: run scripts/fetch-model";
    const Result<Safetensors> file = Safetensors::open(golden("smollm2") / "expected.safetensors");
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    columns_ = values<int32_t>(*file, "columns");
    for (const std::string p : {"0.", "1.", "2."}) {
      expected_.push_back({.input = values<TokenId>(*file, p + "input_ids"),
                           .greedy = values<TokenId>(*file, p + "greedy_ids"),
                           .first_logits = values<float>(*file, p + "first_logits"),
                           .top_ids = values<TokenId>(*file, p + "top_ids"),
                           .top_logits = values<float>(*file, p + "top_logits")});
    }
  }

  // Teacher-forced over prompt and greedy continuation, as many rows a call as there may be (rows do not
  // depend on each other). Calls check(step, logits) for each of the steps.
  template <typename Check>
  void follow(Model& model, const Expected& e, const Check& check) {
    const size_t vocab = static_cast<size_t>(model.config().vocab), steps = e.greedy.size();
    KvPool pool = KvPool::create(model.kv_shape(), 1024).take();
    Sequence seq(pool);
    prompt(model, std::span(e.input).first(e.input.size() - 1), seq, 512);
    std::vector<float> logits(kernels::kMaxStepRows * vocab);
    for (size_t at = 0; at < steps; at += kernels::kMaxStepRows) {
      std::vector<StepToken> rows;
      for (size_t i = at; i < std::min<size_t>(steps, at + kernels::kMaxStepRows); ++i) {
        rows.push_back({i == 0 ? e.input.back() : e.greedy[i - 1], &seq});
      }
      const Status s = model.step(rows, logits.data());
      ASSERT_TRUE(s.ok()) << s.to_string();
      for (size_t r = 0; r < rows.size(); ++r) check(at + r, std::span(logits).subspan(r * vocab, vocab));
    }
  }

  std::vector<float> at_columns(std::span<const float> logits) const {
    std::vector<float> out;
    for (const int32_t c : columns_) out.push_back(logits[static_cast<size_t>(c)]);
    return out;
  }

  std::vector<int32_t> columns_;
  std::vector<Expected> expected_;
};

TEST_F(SmolLm2, ReferenceArithmeticIsGreedyEqual) {
  const std::unique_ptr<Model> model = load(model_path(), Arithmetic::kReferenceF32);
  ASSERT_NE(model, nullptr);
  for (const Expected& e : expected_) {
    ASSERT_GE(e.greedy.size(), 64u);
    follow(*model, e, [&](size_t i, std::span<const float> logits) {
      if (i == 0) {
        EXPECT_LE(largest_difference(at_columns(logits), e.first_logits), kReferenceBound);
      }
      EXPECT_EQ(argmax(logits), e.greedy[i]) << "step " << i;
      for (size_t t = 4 * i; t < 4 * i + 4; ++t) {
        EXPECT_NEAR(logits[static_cast<size_t>(e.top_ids[t])], e.top_logits[t], kReferenceBound)
            << "step " << i;
      }
    });
  }
}

TEST_F(SmolLm2, ProductionArithmeticIsClose) {
  const std::unique_ptr<Model> model = load(model_path());
  ASSERT_NE(model, nullptr);
  int agreed = 0, steps = 0;
  float worst = 0;
  for (const Expected& e : expected_) {
    follow(*model, e, [&](size_t i, std::span<const float> logits) {
      if (i == 0) worst = std::max(worst, largest_difference(at_columns(logits), e.first_logits));
      for (size_t t = 4 * i; t < 4 * i + 4; ++t) {
        worst = std::max(worst, std::abs(logits[static_cast<size_t>(e.top_ids[t])] - e.top_logits[t]));
      }
      agreed += argmax(logits) == e.greedy[i];
      ++steps;
    });
  }
  std::printf("SmolLM2 production: top-1 agreement %d of %d, largest logit difference %.3f\n", agreed, steps,
              static_cast<double>(worst));
  EXPECT_GE(agreed, kTopOneAgreement * steps);
  EXPECT_LE(worst, kProductionBound);
  EXPECT_GT(worst, 0.0F);
}

// Sum over p of p * log(p / q), both softmaxes of logits.
double divergence(std::span<const float> p, std::span<const float> q) {
  const auto log_sum = [](std::span<const float> x) {
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float v : x) sum += std::exp(v - top);
    return top + std::log(sum);
  };
  const double of_p = log_sum(p), of_q = log_sum(q);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i] - of_p) * ((p[i] - of_p) - (q[i] - of_q));
  return sum;
}

// Logits of kRungTokens positions in prompt arithmetic, then of as many in step arithmetic.
std::vector<std::vector<float>> rows_of_rung(kernels::Rung rung, std::span<const TokenId> ids) {
  std::vector<std::vector<float>> rows;
  EXPECT_TRUE(kernels::set_rung(rung));
  const std::unique_ptr<Model> model = load(model_path());
  if (model == nullptr) return rows;
  KvPool pool = KvPool::create(model->kv_shape(), 512).take();
  Sequence seq(pool);
  const LogitsRow keep = [&](int64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
    return Status();
  };
  EXPECT_TRUE(force_prompt(*model, ids.first(kRungTokens), seq, keep).ok());
  EXPECT_TRUE(force_steps(*model, ids.subspan(kRungTokens, kRungTokens), seq, keep).ok());
  return rows;
}

// The twins add the scores of prompt attention in an order of their own.
bool same_arithmetic(kernels::Rung a, kernels::Rung b) {
  const bool twins = a == kernels::Rung::kScalar || b == kernels::Rung::kScalar;
  return a == b || (!twins && kernels::multiplies_bf16(a) == kernels::multiplies_bf16(b));
}

TEST_F(SmolLm2, RungsSayNearlyTheSame) {
  const std::vector<kernels::Rung> rungs = kernels::available_rungs();
  const std::shared_ptr<void> restore(nullptr, [best = rungs.back()](void*) { kernels::set_rung(best); });
  ASSERT_GE(expected_[2].input.size(), 2 * kRungTokens);
  std::map<kernels::Rung, std::vector<std::vector<float>>> all;
  for (const kernels::Rung rung : rungs) {
    all[rung] = rows_of_rung(rung, expected_[2].input);
    ASSERT_EQ(all[rung].size(), 2 * kRungTokens);
    for (const auto& [other, rows] : all)
      EXPECT_EQ(all[rung] == rows, same_arithmetic(rung, other)) << rung_name(rung) << rung_name(other);
  }
  const std::vector<std::vector<float>>& best = all[rungs.back()];
  for (const kernels::Rung rung : rungs) {
    const std::vector<std::vector<float>>& rows = all[rung];
    double prompt_kl = 0, step_kl = 0;
    for (size_t i = 0; i < rows.size(); ++i)
      (i < kRungTokens ? prompt_kl : step_kl) += divergence(best[i], rows[i]);
    std::printf("%s from %s: mean KL %.6f prompt, %.6f step\n", std::string(rung_name(rung)).c_str(),
                std::string(rung_name(rungs.back())).c_str(), prompt_kl / kRungTokens, step_kl / kRungTokens);
    EXPECT_LE(prompt_kl, kRungKl * kRungTokens);
    EXPECT_LE(step_kl, kRungKl * kRungTokens);
  }
}

TEST_F(SmolLm2, ChunkPlansGiveOneSetOfBits) {
  const std::unique_ptr<Model> model = load(model_path());
  ASSERT_NE(model, nullptr);
  KvPool pool = KvPool::create(model->kv_shape(), 1024).take();
  const std::vector<TokenId>& ids = expected_[2].input;
  ASSERT_GT(ids.size(), 256u);
  std::vector<float> logits;
  std::vector<std::byte> cache;
  const std::span<const TokenId> before(ids.data(), ids.size() - 1);
  for (const size_t chunk : {512u, 64u, 100u, 1u}) {
    Sequence seq(pool);
    // One by one only where it counts, across the last page's start: the tiny models are run so from the
    // beginning.
    const size_t head = chunk == 1 ? before.size() / 64 * 64 - 3 : 0;
    prompt(*model, before.first(head), seq, 512);
    prompt(*model, before.subspan(head, std::min<size_t>(before.size() - head, chunk == 1 ? 8 : 512)), seq,
           chunk);
    prompt(*model, before.subspan(static_cast<size_t>(seq.length())), seq, 512);
    const std::vector<float> got = step(*model, ids.back(), seq);
    if (chunk == 512) {
      logits = got;
      cache = cache_bytes(seq);
    }
    EXPECT_TRUE(got == logits) << "chunk " << chunk;
    EXPECT_TRUE(cache_bytes(seq) == cache) << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace isthmus
