// SPDX-License-Identifier: Apache-2.0
#include "model/workspace.h"

#include <algorithm>
#include <string>

#include "kernels/step_linear.h"

namespace isthmus {
namespace {

template <typename T>
bool reserve_activations(Activations<T>& a, const ModelConfig& c, int64_t n) {
  const auto count = [n](int64_t width) { return static_cast<size_t>(n * width); };
  return a.normed.try_resize(count(c.width)) && a.q.try_resize(count(c.q_width())) &&
         a.attention.try_resize(count(c.q_width())) && a.gated.try_resize(count(c.ffn));
}

}  // namespace

Status Workspace::reserve(const ModelConfig& c, int64_t n, bool production) {
  if (n <= tokens_) return {};
  const int64_t rows = kernels::kMaxStepRows;
  const int64_t room = std::max(n, rows);
  const auto count = [](int64_t r, int64_t width) { return static_cast<size_t>(r * width); };
  const int64_t qkv_width = c.q_width() + 2 * c.kv_width();
  tokens_ = 0;
  const bool ok = x.try_resize(count(room, c.width)) && q.try_resize(count(room, c.q_width())) &&
                  k.try_resize(count(room, c.kv_width())) && v.try_resize(count(room, c.kv_width())) &&
                  gate_up.try_resize(count(room, 2 * int64_t{c.ffn})) &&
                  qkv.try_resize(count(rows, qkv_width)) &&
                  cos.try_resize(count(rows, c.rope.rotary_dim / 2)) &&
                  sin.try_resize(count(rows, c.rope.rotary_dim / 2)) &&
                  stacked.try_resize(count(rows, std::max(qkv_width, 2 * int64_t{c.ffn}))) &&
                  (!production || reserve_activations(half, c, room)) &&
                  reserve_activations(full, c, production ? rows : room);
  if (!ok)
    return {Code::kResourceExhausted, "model: no memory for a chunk of " + std::to_string(n) + " tokens"};
  tokens_ = room;
  return {};
}

}  // namespace isthmus
