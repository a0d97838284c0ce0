// SPDX-License-Identifier: Apache-2.0
#include "store/chain_sink.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"

namespace isthmus {

ChainSink::ChainSink(ChainSpec spec, const PlaneLayout& layout, Insert insert)
    : spec_(std::move(spec)), layout_(layout), insert_(std::move(insert)) {
  broken_ = check_spec();
  next_ = spec_.first;
  parent_ = spec_.parent;
}

Status ChainSink::check_spec() const {
  const auto size = static_cast<int64_t>(spec_.ids.size());
  if (spec_.first < 0 || spec_.first > size || spec_.first % layout_.block_tokens != 0) {
    return {Code::kInvalidArgument, "chain: first " + std::to_string(spec_.first) +
                                        " is not a block boundary within " + std::to_string(size) + " ids"};
  }
  const std::string& id = spec_.transfer_id;
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (id.size() > kMaxTransferIdBytes || !printable) {
    return {Code::kInvalidArgument, "chain: transfer id is not up to 255 printable ASCII characters"};
  }
  if (spec_.source.kind == SourceKind::kNative && spec_.source.producer != Digest{}) {
    return {Code::kInvalidArgument, "chain: a native source names a producer"};
  }
  return {};
}

Status ChainSink::check_range(int64_t first, int64_t last, size_t bytes) const {
  const auto size = static_cast<int64_t>(spec_.ids.size());
  if (first != next_) {
    return {Code::kInvalidArgument,
            "chain: rows start at " + std::to_string(first) + ", expected " + std::to_string(next_)};
  }
  if (first % layout_.block_tokens != 0) {
    return {Code::kInvalidArgument, "chain: rows after the partial tail " + std::to_string(first)};
  }
  if (last <= first || last > size || last - first > layout_.block_tokens) {
    return {Code::kInvalidArgument, "chain: rows [" + std::to_string(first) + ", " + std::to_string(last) +
                                        ") are not one block of " + std::to_string(size) + " ids"};
  }
  const size_t expected = layout_.block_bytes(first, last);
  if (bytes != expected) {
    return {Code::kInvalidArgument,
            "chain: " + std::to_string(bytes) + " plane bytes, expected " + std::to_string(expected)};
  }
  return {};
}

Status ChainSink::put(int64_t first, int64_t last, Bytes planes) {
  TRY(broken_);
  TRY(check_range(first, last, planes.size()));
  auto block = std::make_shared<Block>();
  block->parent = parent_;
  block->first_token = first;
  block->ids.assign(spec_.ids.begin() + first, spec_.ids.begin() + last);
  block->source = spec_.source;
  block->transfer_id = spec_.transfer_id;
  block->planes = std::move(planes);
  block->key = block_key(parent_, spec_.source, block->ids);
  const BlockKey key = block->key;
  BlockPtr shared = std::move(block);
  TRY(insert_(shared));
  last_block_ = std::move(shared);
  parent_ = key;
  next_ = last;
  return {};
}

Status ChainSink::seal(int64_t last) {
  TRY(broken_);
  if (last != next_) {
    return {Code::kInvalidArgument,
            "chain: seal at " + std::to_string(last) + ", rows end at " + std::to_string(next_)};
  }
  broken_ = Status(Code::kInvalidArgument, "chain: sealed");
  last_block_.reset();
  return {};
}

void ChainSink::abort(const Status& why) {
  log_debug("chain: aborted at token {}: {}", next_, why.to_string());
  broken_ = Status(Code::kCancelled, "chain: aborted: " + why.message());
  last_block_.reset();
}

}  // namespace isthmus
