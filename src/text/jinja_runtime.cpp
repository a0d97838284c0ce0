// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_runtime.h"

namespace isthmus::jinja {

Status Runtime::spend(size_t& spent, size_t amount, size_t limit, const char* what) {
  if (amount <= limit - spent) {
    spent += amount;
    return {};
  }
  return {Code::kResourceExhausted, "more than " + std::to_string(limit) + " " + what};
}

Status Runtime::work(size_t count, size_t each) {
  if (each != 0 && count > limits_.max_work_bytes / each) return work(limits_.max_work_bytes + 1);
  return work(count * each);
}

Status Runtime::enter() {
  ++depth_;
  if (depth_ <= limits_.max_depth) return {};
  return {Code::kResourceExhausted, "nesting deeper than " + std::to_string(limits_.max_depth) + " levels"};
}

Namespace* Runtime::new_namespace() {
  namespaces_.push_back(std::make_unique<Namespace>());
  return namespaces_.back().get();
}

}  // namespace isthmus::jinja
