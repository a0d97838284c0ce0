// SPDX-License-Identifier: Apache-2.0
// Runtime: what one rendering may spend and has spent (steps, bytes, depth), its clock, and its namespaces.
// Owned by the rendering on one thread; filters, tests and functions get it as their first argument. Not the
// variables.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "text/jinja_value.h"

namespace isthmus::jinja {

struct Limits {
  int max_depth = 256;  // nested statements and expressions, macro calls included; bounds the stack
  size_t max_iterations = 1'000'000;        // loop passes of a rendering: far above any conversation
  size_t max_steps = 20'000'000;            // statements and expressions: about two seconds
  size_t max_output_bytes = 64U << 20U;     // four times the largest request body
  size_t max_work_bytes = size_t{1} << 30;  // strings and lists built, compared or printed on the way
};

class Runtime {
 public:
  Runtime(const Limits& limits, const Clock& clock) : limits_(limits), clock_(clock) {}

  // Each kResourceExhausted when its limit is passed.
  Status step(size_t steps = 1) { return spend(steps_, steps, limits_.max_steps, "steps"); }
  Status iterate() { return spend(iterations_, 1, limits_.max_iterations, "loop iterations"); }
  Status work(size_t bytes) { return spend(work_bytes_, bytes, limits_.max_work_bytes, "bytes of work"); }
  Status output(size_t bytes) {
    return spend(output_bytes_, bytes, limits_.max_output_bytes, "bytes of output");
  }
  // What a list or string of `count` elements of `each` bytes costs, whatever the product.
  Status work(size_t count, size_t each);

  Status enter();  // one level deeper; a failure ends the rendering, so it needs no leave()
  void leave() { --depth_; }

  Namespace* new_namespace();
  const Clock& clock() const { return clock_; }

 private:
  static Status spend(size_t& spent, size_t amount, size_t limit, const char* what);

  const Limits& limits_;
  const Clock& clock_;
  size_t steps_ = 0;
  size_t iterations_ = 0;
  size_t work_bytes_ = 0;
  size_t output_bytes_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace isthmus::jinja
