// SPDX-License-Identifier: Apache-2.0
// BlockAssembler: K and V rows as the layers deliver them, in; finished blocks in layout order, out. Rounds
// each row once, straight to its place in the block, and checks that every layer delivered every row. Holds
// the rows of one chunk and of the block it ended in, whatever the prompt's length. The engine thread calls
// add and chunk_done; after the run another thread may call seal. For layouts of K and V rows only.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "flow/plane.h"
#include "flow/prefix_store.h"

namespace isthmus {

class BlockAssembler {
 public:
  // Rows [first, last) go to `sink`, which outlives the assembler. Errors: kUnsupported (a plane that is no
  // native K or V plane, by its name), kInvalidArgument (first is no block boundary, first > last).
  static Result<BlockAssembler> create(const PlaneLayout& layout, int64_t first, int64_t last, RowSink& sink);

  // k, v: [n, row_values] f32 of positions [first, first + n). Rows outside [S, last) are ignored. A row that
  // is not the layer's next one is an error, which chunk_done and seal return.
  void add(int layer, int64_t first, int64_t n, const float* k, const float* v);

  // All rows up to `position` were added, or it is an error. Blocks that end there or before leave.
  Status chunk_done(int64_t position);

  // Ships the tail and seals. After a run that ended early the rows behind the last boundary stay here: a
  // partial block may only end a prompt.
  Status seal();

  int64_t shipped_tokens() const { return put_to_ - first_; }
  size_t held_bytes() const;

 private:
  BlockAssembler(PlaneLayout layout, int64_t first, int64_t last, RowSink& sink);
  int64_t block_end(int64_t token) const;  // of the block that holds `token`
  void open_blocks(int64_t end);
  void copy(size_t plane, int64_t first, int64_t n, const float* rows);
  Status put_finished(int64_t position);

  PlaneLayout layout_;
  int64_t first_ = 0, last_ = 0;
  RowSink* sink_;
  std::vector<int64_t> next_;  // per layer: the position expected next
  std::deque<Bytes> open_;     // blocks from put_to_ on, each with room for all its rows
  int64_t open_to_ = 0;        // end of the last of them
  int64_t put_to_ = 0;
  Status error_;  // the first one
};

}  // namespace isthmus
