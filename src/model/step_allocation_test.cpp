// SPDX-License-Identifier: Apache-2.0
// A decode step allocates nothing once its buffers have grown: every `new` of this program is counted, and
// what malloc has given out must not grow (AlignedBuffer). Not under sanitizers, which need both for
// themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/test_models.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (p == nullptr) std::abort();
  return p;
}
}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace isthmus {
namespace {

using namespace test_models;

size_t given_out() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(StepAllocation, StepsAllocateNothing) {
  for (const char* const name : {"llama_tiny", "qwen2_tiny", "qwen3_tiny"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Model> model = load(golden(name));
    ASSERT_NE(model, nullptr);
    KvPool pool = KvPool::create(model->kv_shape(), 4096).take();
    std::vector<Sequence> sequences;
    for (int r = 0; r < 4; ++r) {
      sequences.emplace_back(pool);
      prompt(*model, counted_ids(300 + r, model->config().vocab, r), sequences.back(), 512);
      ASSERT_TRUE(sequences.back().reserve(400).ok());
    }
    std::vector<StepToken> rows;
    for (Sequence& seq : sequences) rows.push_back({5, &seq});
    std::vector<float> logits(rows.size() * static_cast<size_t>(model->config().vocab));
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(model->step(rows, logits.data()).ok());
    const int64_t before = allocations.load();
    const size_t bytes_before = given_out();
    for (int i = 0; i < 90; ++i) {
      if (!model->step(rows, logits.data()).ok()) break;
    }
    EXPECT_EQ(given_out(), bytes_before);
    EXPECT_EQ(allocations.load() - before, 0);
    EXPECT_EQ(sequences[0].length(), 392);
    EXPECT_GT(before, 0);
  }
}

}  // namespace
}  // namespace isthmus
#endif
