// SPDX-License-Identifier: Apache-2.0
// A named tensor in somebody else's bytes (a mapped model file, a received frame), and an immutable table of
// them. Views borrow: whoever mapped the file or holds the buffer outlives them. Values; any thread. Not a
// computing type: kernels take plain pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace isthmus {

struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t>
      shape;  // row-major, outermost first; the last dimension is contiguous. Empty: a scalar.
  // Exactly tensor_bytes(dtype, shape). May be unaligned for its type: read through dequantize_row or memcpy.
  std::span<const std::byte> data;

  int64_t elements() const;
  int64_t row_elements() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const;                             // elements / row_elements; 0 when a dimension is 0
  std::span<const std::byte> row(int64_t i) const;  // 0 <= i < rows()
};

// Bytes of a tensor. kCorrupt: negative dimension, product over 2^63 - 1, a last dimension that is not whole
// blocks.
Result<size_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

std::string shape_text(std::span<const int64_t> shape);  // "[32, 8]"

// A name from a file, for messages: in quotes, cut at 80 bytes, '?' for what is not printable ASCII.
std::string quote_name(std::string_view name);

// Tensors in file order, found by name. Views returned by find() live as long as the table.
class TensorTable {
 public:
  TensorTable() = default;
  // kCorrupt when two tensors have one name. `where` starts the message.
  static Result<TensorTable> build(std::vector<TensorView> tensors, std::string_view where);

  const TensorView* find(std::string_view name) const;             // nullptr when absent
  Result<const TensorView*> get(std::string_view name) const;      // kNotFound naming the tensor
  const std::vector<TensorView>& all() const { return tensors_; }  // file order
  std::vector<const TensorView*> in_name_order() const;
  size_t size() const { return tensors_.size(); }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

 private:
  std::vector<TensorView> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_
};

}  // namespace isthmus
