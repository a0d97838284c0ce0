// SPDX-License-Identifier: Apache-2.0
// Tests only: an OutgoingTransfer that keeps what is put into it and checks the order. One thread at a time.
#pragma once

#include <utility>
#include <vector>

#include "flow/transfer.h"

namespace isthmus {

class RecordingSink final : public OutgoingTransfer {
 public:
  struct Block {
    int64_t first = 0, last = 0;
    Bytes planes;
  };

  Status put(int64_t first, int64_t last, Bytes planes) override {
    if (!refuse.ok()) return refuse;
    if (!blocks.empty() && blocks.back().last != first) return {Code::kInvalidArgument, "rows out of order"};
    blocks.push_back({first, last, std::move(planes)});
    return {};
  }
  Status seal(int64_t last) override {
    sealed_at = last;
    return refuse;
  }
  void abort(const Status&) override {}
  bool has_room() const override { return room; }

  Status refuse;  // what put and seal return when not ok
  bool room = true;
  std::vector<Block> blocks;
  int64_t sealed_at = -1;
};

}  // namespace isthmus
