// SPDX-License-Identifier: Apache-2.0
// What the other stages need from the block store: the longest cached prefix of a token list, and a sink that
// turns rows into blocks. Implemented by store/; any thread may call. Not a place for live sequences
// (model/kv_pool.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/token.h"
#include "flow/block.h"
#include "flow/plane.h"
#include "flow/source.h"

namespace isthmus {

// A lease on blocks that cover tokens [0, tokens): they stay in memory while it lives, whatever the store
// evicts.
struct CachedPrefix {
  int64_t tokens = 0;            // usable; less than the blocks hold when the last one is used in part
  std::vector<BlockPtr> blocks;  // in order, no gaps
  Source source;                 // of the chain: native, or the one bridged source in it
};

// Takes rows of finished cache in order. Owned by one caller, used from one thread at a time.
class RowSink {
 public:
  virtual ~RowSink() = default;  // without seal(): what was put stays (it is content-keyed and whole)
  // Planes of tokens [first, last), PlaneLayout::block_bytes(first, last) bytes. `first` continues where the
  // last call ended; `last` is the next block boundary, or the end of the sequence (the partial tail).
  // Returns once the rows are visible. Errors: kInvalidArgument (order, size), kResourceExhausted (memory or
  // disk floor), kCancelled, kUnavailable (peer gone).
  virtual Status put(int64_t first, int64_t last, Bytes planes) = 0;
  // All rows up to `last` were put. Claims nothing that was not.
  virtual Status seal(int64_t last) = 0;
  // The producer gives up; says why.
  virtual void abort(const Status& why) = 0;
};

// A chain of blocks about to be written.
struct ChainSpec {
  std::vector<TokenId> ids;  // all tokens that rows may come for
  int64_t first = 0;         // rows start here: a multiple of P
  Source source;             // of the new blocks
  BlockKey parent;           // key of the block that ends at `first`; root_key(identity) when first = 0
  std::string transfer_id;
};

class PrefixStore {
 public:
  virtual ~PrefixStore() = default;
  virtual const PlaneLayout& layout() const = 0;
  virtual const Digest& identity() const = 0;

  // Tokens of the longest usable prefix of `ids`, at most `limit`, looking at the index only (no reads from
  // disk). `only`: chains that are native or of this source; null: of any accepted source.
  virtual int64_t cached_tokens(std::span<const TokenId> ids, int64_t limit, const Source* only) = 0;
  // The same prefix, its blocks read and checked. A damaged block is a miss from there on. Never fails: fewer
  // tokens.
  virtual CachedPrefix longest_prefix(std::span<const TokenId> ids, int64_t limit, const Source* only) = 0;
  // Of a chain of `tokens` tokens, those in its first blocks that the store has room for when it holds
  // nothing else.
  virtual int64_t storable_tokens(int64_t tokens) const = 0;
  // Blocks become visible one by one as rows are put.
  virtual std::unique_ptr<RowSink> open_chain(ChainSpec spec) = 0;
};

}  // namespace isthmus
