// SPDX-License-Identifier: Apache-2.0
// Cuts rows that arrive in order into blocks of one chain and hands each to the store. Owned by one producer,
// used from one thread at a time; must not outlive the store.
#pragma once

#include <functional>

#include "flow/prefix_store.h"

namespace isthmus {

inline constexpr size_t kMaxTransferIdBytes = 255;

class ChainSink final : public RowSink {
 public:
  using Insert = std::function<Status(const BlockPtr&)>;

  // A spec that contradicts itself is reported by the first put.
  ChainSink(ChainSpec spec, const PlaneLayout& layout, Insert insert);

  Status put(int64_t first, int64_t last, Bytes planes) override;
  Status seal(int64_t last) override;
  void abort(const Status& why) override;

 private:
  Status check_spec() const;
  Status check_range(int64_t first, int64_t last, size_t bytes) const;

  const ChainSpec spec_;
  const PlaneLayout& layout_;
  const Insert insert_;
  Status broken_;        // of the spec, or set by seal and abort: no more puts
  int64_t next_ = 0;     // rows below it were put
  BlockKey parent_;      // of the next block
  BlockPtr last_block_;  // keeps the chain's end, and so all of it, from being evicted
};

}  // namespace isthmus
