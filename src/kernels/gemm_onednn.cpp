// SPDX-License-Identifier: Apache-2.0
#ifdef ISTHMUS_ONEDNN
#include "kernels/gemm_onednn.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/huge_pages.h"
#include "kernels/parallel.h"

namespace isthmus::kernels {
namespace {

using dnnl::memory;

// Rows of one primitive: whole blocks of 512, then one multiple of 64, then 1..63. So few primitives serve
// every M, and since a row's bits do not depend on M (checked when a shape is first packed), the split is
// invisible.
constexpr int64_t kBlockRows = 512;
constexpr int64_t kStepRows = 64;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc plain(int64_t rows, int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, memory::format_tag::ab};
}

struct Product {
  dnnl::matmul primitive;
  memory::desc weights, in, out, scratchpad;
};

Product make_product(int64_t m, int64_t n, int64_t k, const memory::desc& weights, bool accumulate) {
  dnnl::primitive_attr attr;
  // The library's own scratchpad would tie a primitive to the thread that made it.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attr.set_post_ops(sum);
  }
  const memory::desc in = plain(m, k, memory::data_type::bf16);
  const memory::desc out = plain(m, n, memory::data_type::f32);
  const dnnl::matmul::primitive_desc pd({in, weights, out}, attr, cpu());
  return {dnnl::matmul(pd), pd.weights_desc(), in, out, pd.scratchpad_desc()};
}

// What all matrices of one (N, K) share.
struct Shape {
  int64_t n = 0;
  int64_t k = 0;
  memory::desc weights;     // blocked layout, chosen for kBlockRows
  bool fixed_rows = false;  // rows turned out to depend on M: run kStepRows at a time, padded
  std::once_flag checked;

  // Key: rows, threads (a primitive's work split is fixed when it is made), accumulate.
  std::mutex mutex;
  std::map<std::array<int64_t, 3>, Product> products;

  const Product& product(int64_t m, bool accumulate) {
    const std::lock_guard lock(mutex);
    const std::array<int64_t, 3> key = {m, thread_count(), accumulate};
    auto it = products.find(key);
    if (it == products.end()) it = products.emplace(key, make_product(m, n, k, weights, accumulate)).first;
    return it->second;
  }
};

std::shared_ptr<Shape> shape_for(int64_t n, int64_t k) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, int64_t>, std::shared_ptr<Shape>> shapes;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Shape>& shape = shapes[{n, k}];
  if (!shape) {
    auto made = std::make_shared<Shape>();
    made->n = n;
    made->k = k;
    const memory::desc any({k, n}, memory::data_type::bf16, memory::format_tag::any);
    made->weights = make_product(kBlockRows, n, k, any, false).weights;
    shape = std::move(made);
  }
  return shape;
}

std::byte* scratch(size_t bytes) {
  static thread_local std::vector<std::byte> buffer;
  constexpr size_t kAlign = 64;
  if (buffer.size() < bytes + kAlign) buffer.resize(bytes + kAlign);
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  return buffer.data() + (kAlign - address % kAlign) % kAlign;
}

void execute(const Product& p, const memory& weights, const bf16* in, float* out) {
  static thread_local dnnl::stream stream(cpu());
  memory src(p.in, cpu(), const_cast<bf16*>(in));  // NOLINT: oneDNN has no const memory
  memory dst(p.out, cpu(), out);
  memory pad(p.scratchpad, cpu(), scratch(p.scratchpad.get_size()));
  p.primitive.execute(
      stream,
      {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}, {DNNL_ARG_SCRATCHPAD, pad}});
  stream.wait();
}

void run_fixed_rows(Shape& shape, const memory& weights, const bf16* in, int64_t m, float* out,
                    bool accumulate) {
  const Product& p = shape.product(kStepRows, accumulate);
  std::vector<bf16> padded_in(static_cast<size_t>(kStepRows * shape.k));
  std::vector<float> padded_out(static_cast<size_t>(kStepRows * shape.n));
  for (int64_t row = 0; row < m; row += kStepRows) {
    const int64_t rows = std::min(kStepRows, m - row);
    const size_t out_bytes = static_cast<size_t>(rows * shape.n) * sizeof(float);
    std::memcpy(padded_in.data(), in + row * shape.k, static_cast<size_t>(rows * shape.k) * sizeof(bf16));
    std::memcpy(padded_out.data(), out + row * shape.n, out_bytes);
    execute(p, weights, padded_in.data(), padded_out.data());
    std::memcpy(out + row * shape.n, padded_out.data(), out_bytes);
  }
}

void run_any_rows(Shape& shape, const memory& weights, const bf16* in, int64_t m, float* out,
                  bool accumulate) {
  while (m > 0) {
    int64_t rows = std::min(m, kBlockRows);
    if (rows > kStepRows) rows -= rows % kStepRows;
    execute(shape.product(rows, accumulate), weights, in, out);
    in += rows * shape.k;
    out += rows * shape.n;
    m -= rows;
  }
}

// Same bits for a row alone, among 63 and among many? Inputs are arbitrary but fixed.
bool rows_invariant(Shape& shape, const memory& weights) {
  constexpr int64_t kMaxOutputs = 4 * 1024 * 1024;
  const int64_t m = std::clamp(kMaxOutputs / shape.n, kStepRows, kBlockRows) / kStepRows * kStepRows;
  std::vector<bf16> in(static_cast<size_t>(m * shape.k));
  uint32_t state = 1;
  for (bf16& v : in) {
    state = state * 1664525u + 1013904223u;
    v = to_bf16(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-30f);
  }
  std::vector<float> all(static_cast<size_t>(m * shape.n));
  run_any_rows(shape, weights, in.data(), m, all.data(), false);
  std::vector<float> some(static_cast<size_t>(63 * shape.n));
  const std::pair<int64_t, int64_t> parts[] = {{0, 1}, {m - 1, 1}, {m / 2, 1}, {1, 63 <= m - 1 ? 63 : m - 1}};
  for (const auto& [first, rows] : parts) {
    run_any_rows(shape, weights, in.data() + first * shape.k, rows, some.data(), false);
    const size_t bytes = static_cast<size_t>(rows * shape.n) * sizeof(float);
    if (std::memcmp(some.data(), all.data() + first * shape.n, bytes) != 0) return false;
  }
  return true;
}

}  // namespace

struct OneDnnMatrix::State {
  std::shared_ptr<Shape> shape;
  HugeBuffer own;                      // empty when the bytes are another's
  std::span<const std::byte> storage;  // rounded up to whole cache lines
  memory weights;                      // over `storage`
};

namespace {

size_t storage_bytes(const Shape& shape) {
  constexpr size_t kLine = 64;
  return (shape.weights.get_size() + kLine - 1) / kLine * kLine;
}

Status status_of(const dnnl::error& e) {
  const Code code = e.status == dnnl_unimplemented ? Code::kUnsupported : Code::kInternal;
  return {code, "gemm: oneDNN: " + std::string(e.what())};
}

void check_rows(Shape& shape, const memory& weights) {
  std::call_once(shape.checked, [&] { shape.fixed_rows = !rows_invariant(shape, weights); });
}

}  // namespace

OneDnnMatrix::OneDnnMatrix(std::unique_ptr<State> state) : state_(std::move(state)) {}
OneDnnMatrix::~OneDnnMatrix() = default;

Result<std::unique_ptr<OneDnnMatrix>> OneDnnMatrix::pack(const bf16* weights, int64_t n, int64_t k) try {
  auto state = std::make_unique<State>();
  state->shape = shape_for(n, k);
  Shape& shape = *state->shape;
  if (!state->own.try_resize(storage_bytes(shape))) {
    return Status(Code::kResourceExhausted,
                  "gemm: no memory for a matrix of " + std::to_string(n) + " x " + std::to_string(k));
  }
  state->storage = {state->own.data(), state->own.size()};
  state->weights = memory(shape.weights, cpu(), state->own.data());
  dnnl::stream stream(cpu());
  // [N, K] row-major is [K, N] column-major.
  memory source({{k, n}, memory::data_type::bf16, memory::format_tag::ba}, cpu(),
                const_cast<bf16*>(weights));  // NOLINT: read only
  dnnl::reorder(source, state->weights).execute(stream, source, state->weights);
  stream.wait();
  check_rows(shape, state->weights);
  return std::make_unique<OneDnnMatrix>(std::move(state));
} catch (const dnnl::error& e) {
  return status_of(e);
}

Result<std::unique_ptr<OneDnnMatrix>> OneDnnMatrix::adopt(std::span<const std::byte> storage, int64_t n,
                                                          int64_t k) try {
  auto state = std::make_unique<State>();
  state->shape = shape_for(n, k);
  Shape& shape = *state->shape;
  if (storage.size() != storage_bytes(shape)) {
    return Status(Code::kMismatch, "gemm: packed matrix of " + std::to_string(n) + " x " + std::to_string(k) +
                                       ": expected " + std::to_string(storage_bytes(shape)) + " bytes, got " +
                                       std::to_string(storage.size()));
  }
  state->storage = storage;
  state->weights = memory(shape.weights, cpu(), const_cast<std::byte*>(storage.data()));  // NOLINT: read only
  check_rows(shape, state->weights);
  return std::make_unique<OneDnnMatrix>(std::move(state));
} catch (const dnnl::error& e) {
  return status_of(e);
}

// The description is a plain struct of the library, so its bytes say all about the layout.
std::string OneDnnMatrix::layout(int64_t n, int64_t k) {
  const std::shared_ptr<Shape> shape = shape_for(n, k);
  const dnnl_version_t* v = dnnl_version();
  return "onednn-" + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch) + "-bf16-" +
         hex64(xxh3_64(std::as_bytes(std::span(&shape->weights.data, 1))));
}

void OneDnnMatrix::run(const bf16* in, int64_t m, float* out, bool accumulate) const {
  try {
    Shape& shape = *state_->shape;
    (shape.fixed_rows ? run_fixed_rows : run_any_rows)(shape, state_->weights, in, m, out, accumulate);
  } catch (const dnnl::error& e) {
    std::fprintf(stderr, "gemm: oneDNN: %s\n", e.what());
    ISTHMUS_CHECK(!"a packed matrix multiplies");
  }
}

std::span<const std::byte> OneDnnMatrix::storage() const {
  return state_->storage;
}

}  // namespace isthmus::kernels
#endif  // ISTHMUS_ONEDNN
