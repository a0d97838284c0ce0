// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/bytes.h"

namespace isthmus {
namespace {

std::string_view name_of(const std::vector<TensorView>& tensors, uint32_t index) {
  return tensors[index].name;
}

}  // namespace

int64_t TensorView::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

int64_t TensorView::rows() const {
  const int64_t n = row_elements();
  return n == 0 ? 0 : elements() / n;
}

std::span<const std::byte> TensorView::row(int64_t i) const {
  ISTHMUS_CHECK(i >= 0 && i < rows());
  const size_t bytes = row_bytes(dtype, row_elements());
  return data.subspan(static_cast<size_t>(i) * bytes, bytes);
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string quote_name(std::string_view name) {
  constexpr size_t kMaxBytes = 80;
  std::string text(name.substr(0, kMaxBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + text + (name.size() > kMaxBytes ? "...'" : "'");
}

Result<size_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  const DTypeInfo& info = dtype_info(dtype);
  uint64_t elements = 1;
  bool empty = false;
  for (const int64_t d : shape) {
    if (d < 0) return Status(Code::kCorrupt, "shape " + shape_text(shape) + " has a negative dimension");
    empty = empty || d == 0;
    // Zero dimensions are left out, so that the others are checked wherever the zero stands.
    if (d != 0 && !checked_multiply(elements, static_cast<uint64_t>(d), &elements)) elements = UINT64_MAX;
    if (elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Status(Code::kCorrupt, "shape " + shape_text(shape) + " has more than 2^63 elements");
    }
  }
  const auto block = static_cast<uint64_t>(info.block_elements);
  const uint64_t row = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  if (row % block != 0) {
    return Status(Code::kCorrupt, "rows of " + std::string(info.name) + " are a multiple of " +
                                      std::to_string(block) + " values, shape is " + shape_text(shape));
  }
  uint64_t bytes = 0;
  if (!checked_multiply(elements / block, info.block_bytes, &bytes) ||
      bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Status(Code::kCorrupt, "shape " + shape_text(shape) + " has more than 2^63 bytes");
  }
  return static_cast<size_t>(empty ? 0 : bytes);
}

Result<TensorTable> TensorTable::build(std::vector<TensorView> tensors, std::string_view where) {
  TensorTable table;
  table.tensors_ = std::move(tensors);
  const std::vector<TensorView>& all = table.tensors_;
  table.by_name_.resize(all.size());
  std::iota(table.by_name_.begin(), table.by_name_.end(), 0u);
  std::sort(table.by_name_.begin(), table.by_name_.end(),
            [&all](uint32_t a, uint32_t b) { return name_of(all, a) < name_of(all, b); });
  const auto twin =
      std::adjacent_find(table.by_name_.begin(), table.by_name_.end(),
                         [&all](uint32_t a, uint32_t b) { return name_of(all, a) == name_of(all, b); });
  if (twin != table.by_name_.end()) {
    return Status(Code::kCorrupt,
                  std::string(where) + ": two tensors are named " + quote_name(all[*twin].name));
  }
  return table;
}

const TensorView* TensorTable::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](uint32_t i, std::string_view n) { return name_of(tensors_, i) < n; });
  return at != by_name_.end() && name_of(tensors_, *at) == name ? &tensors_[*at] : nullptr;
}

Result<const TensorView*> TensorTable::get(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr)
    return Status(Code::kNotFound, "no tensor " + quote_name(name) + " in the model file");
  return tensor;
}

std::vector<const TensorView*> TensorTable::in_name_order() const {
  std::vector<const TensorView*> ordered;
  ordered.reserve(by_name_.size());
  for (const uint32_t i : by_name_) ordered.push_back(&tensors_[i]);
  return ordered;
}

}  // namespace isthmus
