// SPDX-License-Identifier: Apache-2.0
// Tests only: the tiny golden models, and runs of a model that tests compare. Single thread.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/test_data.h"
#include "model/model.h"
#include "tensor/safetensors.h"

namespace isthmus::test_models {

inline std::filesystem::path golden(const std::string& name) {
  return test_data(name);
}

// A directory under the test's temporary folder with the weights of `name` and another config.json.
inline std::filesystem::path with_config(const std::string& name, const std::string& config_file) {
  namespace fs = std::filesystem;
  const fs::path to = fs::path(testing::TempDir()) / ("isthmus_" + name + "_" + config_file);
  fs::create_directories(to);
  fs::copy_file(golden(name) / config_file, to / "config.json", fs::copy_options::overwrite_existing);
  fs::copy_file(golden(name) / "model.safetensors", to / "model.safetensors",
                fs::copy_options::overwrite_existing);
  return to;
}

inline std::unique_ptr<Model> load(const std::filesystem::path& path,
                                   Arithmetic arithmetic = Arithmetic::kProduction) {
  Result<std::unique_ptr<Model>> model = Model::load(path, {.arithmetic = arithmetic, .max_positions = 4096});
  if (!model.ok()) ADD_FAILURE() << model.status().to_string();
  return model.ok() ? model.take() : nullptr;
}

template <typename T>
std::vector<T> values(const Safetensors& file, const std::string& name) {
  const TensorView* t = file.tensors().find(name);
  if (t == nullptr) {
    ADD_FAILURE() << "golden file has no " << name;
    return {};
  }
  std::vector<T> out(t->data.size() / sizeof(T));
  std::memcpy(out.data(), t->data.data(), t->data.size());
  return out;
}

inline float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float d = std::abs(a[i] - b[i]);
    if (!(d <= worst)) worst = d;  // NaN counts as worst
  }
  return worst;
}

inline TokenId argmax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Prompt arithmetic over `ids` in chunks of `chunk` tokens.
inline void prompt(Model& model, std::span<const TokenId> ids, Sequence& seq, size_t chunk,
                   LayerTap* tap = nullptr) {
  for (size_t at = 0; at < ids.size(); at += chunk) {
    const Status s = model.prompt(ids.subspan(at, std::min(chunk, ids.size() - at)), seq, tap, {});
    ASSERT_TRUE(s.ok()) << s.to_string();
  }
}

inline std::vector<float> step(Model& model, TokenId id, Sequence& seq) {
  std::vector<float> logits(static_cast<size_t>(model.config().vocab));
  const StepToken row{id, &seq};
  const Status s = model.step({&row, 1}, logits.data());
  EXPECT_TRUE(s.ok()) << s.to_string();
  return logits;
}

// Every K and V byte of a sequence, layer by layer.
inline std::vector<std::byte> cache_bytes(const Sequence& seq) {
  const KvShape& shape = seq.pool().shape();
  const size_t plane = static_cast<size_t>(seq.length()) * shape.plane_row_bytes();
  std::vector<std::byte> all(plane * 2 * static_cast<size_t>(shape.layers));
  std::span<std::byte> rest(all);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const KvPlane which : {KvPlane::kKeys, KvPlane::kValues}) {
      seq.read_rows(layer, which, 0, seq.length(), rest.first(plane));
      rest = rest.subspan(plane);
    }
  }
  return all;
}

inline std::vector<TokenId> counted_ids(int n, int vocab, int seed) {
  std::vector<TokenId> ids(static_cast<size_t>(n));
  uint32_t state = 2654435769u * static_cast<uint32_t>(seed + 1);
  for (TokenId& id : ids) {
    state = state * 1664525u + 1013904223u;
    id = static_cast<TokenId>((state >> 8) % static_cast<uint32_t>(vocab));
  }
  return ids;
}

}  // namespace isthmus::test_models
