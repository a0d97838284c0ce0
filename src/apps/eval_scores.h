// SPDX-License-Identifier: Apache-2.0
// What eval gathers, document by document, and the numbers it makes of it. One thread. Runs no model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "base/token.h"
#include "model/kv_pool.h"

namespace isthmus {

// A row of logits, ready to be compared with others.
struct Prediction {
  std::vector<double> log_p;
  int64_t choice = 0;  // the likeliest token

  static Prediction of(std::span<const float> logits);
};

// One system against another that is held to be right.
class Score {
 public:
  // Rows and the answer that are added from here on belong to another document.
  void open_document();
  void add(const Prediction& right, const Prediction& other);
  void add_answers(std::span<const TokenId> right, std::span<const TokenId> other);

  // kl_mean, kl_p95, top1_agreement and greedy_prefix, each {value, low, high} with a 95 % interval over
  // documents; positions; kl_by_document.
  Json json() const;

 private:
  struct Document {
    std::vector<double> kl, same_choice, greedy_prefix;
  };
  std::vector<std::vector<double>> values(std::vector<double> Document::*member) const;
  std::vector<Document> documents_;
};

// Rows of a decoder's cache that came over a bridge, against those it computes itself.
class PlaneErrors {
 public:
  // Rows [0, own.length()) of every layer; equal shapes, bf16.
  void add(const Sequence& own, const Sequence& bridged);
  // k and v: for each layer ‖bridged - own‖ / ‖own‖ over all rows of all documents; k_all, v_all: of all
  // layers.
  Json json() const;

 private:
  struct Sum {
    double difference = 0, own = 0;  // of squares
  };
  static Json ratios(const std::vector<Sum>& layers);
  static double overall(const std::vector<Sum>& layers);
  std::vector<Sum> k_, v_;
};

}  // namespace isthmus
