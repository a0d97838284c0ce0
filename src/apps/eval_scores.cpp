// SPDX-License-Identifier: Apache-2.0
#include "apps/eval_scores.h"

#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "base/statistics.h"
#include "kernels/vector_ops.h"

namespace isthmus {
namespace {

double kl_p95(std::span<const double> values) {
  return percentile(values, 0.95);
}

Json with_interval(const std::vector<std::vector<double>>& by_document, const Statistic& statistic) {
  std::vector<double> all;
  for (const auto& d : by_document) all.insert(all.end(), d.begin(), d.end());
  const Interval interval = bootstrap_interval(by_document, statistic);
  return {{"value", statistic(all)}, {"low", interval.low}, {"high", interval.high}};
}

double ratio(double difference, double own) {
  return own > 0 ? std::sqrt(difference / own) : (difference > 0 ? 1 : 0);
}

}  // namespace

Prediction Prediction::of(std::span<const float> logits) {
  return {.log_p = log_softmax(logits), .choice = kernels::argmax(logits.data(), std::ssize(logits))};
}

void Score::open_document() {
  documents_.emplace_back();
}

void Score::add(const Prediction& right, const Prediction& other) {
  documents_.back().kl.push_back(kl_divergence(right.log_p, other.log_p));
  documents_.back().same_choice.push_back(right.choice == other.choice ? 1 : 0);
}

void Score::add_answers(std::span<const TokenId> right, std::span<const TokenId> other) {
  const auto [end, ignored] = std::mismatch(right.begin(), right.end(), other.begin(), other.end());
  documents_.back().greedy_prefix.push_back(static_cast<double>(end - right.begin()));
}

std::vector<std::vector<double>> Score::values(std::vector<double> Document::*member) const {
  std::vector<std::vector<double>> out;
  for (const Document& d : documents_) out.push_back(d.*member);
  return out;
}

Json Score::json() const {
  Json by_document = Json::array();
  size_t positions = 0;
  for (const Document& d : documents_) {
    by_document.push_back(mean(d.kl));
    positions += d.kl.size();
  }
  return {{"positions", positions},
          {"kl_mean", with_interval(values(&Document::kl), mean)},
          {"kl_p95", with_interval(values(&Document::kl), kl_p95)},
          {"top1_agreement", with_interval(values(&Document::same_choice), mean)},
          {"greedy_prefix", with_interval(values(&Document::greedy_prefix), mean)},
          {"kl_by_document", std::move(by_document)}};
}

void PlaneErrors::add(const Sequence& own, const Sequence& bridged) {
  const KvShape& shape = own.pool().shape();
  ISTHMUS_CHECK(shape.dtype == DType::kBF16 && own.length() == bridged.length());
  k_.resize(static_cast<size_t>(shape.layers));
  v_.resize(static_cast<size_t>(shape.layers));
  const auto count = static_cast<size_t>(own.length() * shape.kv_heads * shape.head_dim);
  std::vector<bf16> a(count), b(count);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const KvPlane plane : {KvPlane::kKeys, KvPlane::kValues}) {
      own.read_rows(layer, plane, 0, own.length(), std::as_writable_bytes(std::span(a)));
      bridged.read_rows(layer, plane, 0, own.length(), std::as_writable_bytes(std::span(b)));
      Sum& sum = (plane == KvPlane::kKeys ? k_ : v_)[static_cast<size_t>(layer)];
      for (size_t i = 0; i < count; ++i) {
        const double x = static_cast<double>(to_float(a[i]));
        const double d = static_cast<double>(to_float(b[i])) - x;
        sum.difference += d * d;
        sum.own += x * x;
      }
    }
  }
}

Json PlaneErrors::ratios(const std::vector<Sum>& layers) {
  Json out = Json::array();
  for (const Sum& s : layers) out.push_back(ratio(s.difference, s.own));
  return out;
}

double PlaneErrors::overall(const std::vector<Sum>& layers) {
  Sum all;
  for (const Sum& s : layers) {
    all.difference += s.difference;
    all.own += s.own;
  }
  return ratio(all.difference, all.own);
}

Json PlaneErrors::json() const {
  return {{"k_all", overall(k_)}, {"v_all", overall(v_)}, {"k", ratios(k_)}, {"v", ratios(v_)}};
}

}  // namespace isthmus
