// SPDX-License-Identifier: Apache-2.0
// The only user of PCRE2: splits well-formed UTF-8 by one of our own compiled patterns. Immutable after
// compile(); any thread may call split(), which keeps its state on the stack. Patterns are constants of this
// project: no pattern from a file or a client is ever compiled. Matching work is bounded; hostile text gives
// an error, never a hang. Not a general regex API.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus {

class Regex {
 public:
  // Compiles with UTF and Unicode properties; uses the JIT where the system allows it. kInternal when the
  // pattern is bad.
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Appends to `pieces`, in order, every match and every gap between matches ("isolated" splitting), so that
  // the pieces concatenate to `text`; they borrow from it. `text` must be well-formed UTF-8 (undefined
  // otherwise). kResourceExhausted when the match limit is hit; `pieces` is then incomplete.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
