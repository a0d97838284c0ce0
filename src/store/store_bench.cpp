// SPDX-License-Identifier: Apache-2.0
// Block files, the memory tier and the index, each called from one thread. Counted by
// scripts/instruction-counts. Not the store on a disk as a whole: when its writer gets to a block is a matter
// of time, and what a start reads comes in the file system's order.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/counted_bench.h"
#include "base/temp_dir.h"
#include "store/block_directory.h"
#include "store/block_file.h"
#include "store/block_store.h"
#include "store/index.h"

namespace isthmus {
namespace {

constexpr int kBlock = 256;
using Ids = std::vector<TokenId>;

PlaneLayout layout() {
  return native_layout(4, 16, kBlock, DType::kBF16);
}
Digest identity() {
  return sha256("model");
}

Ids prompt(int64_t n, uint64_t seed) {
  Ids ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<TokenId>(xxh3_64({}, seed * 1'000'003 + i) % 49'152);
  return ids;
}

Block block_of(const Ids& ids, const BlockKey& parent) {
  Block block;
  block.parent = parent;
  block.ids = ids;
  block.key = block_key(parent, block.source, ids);
  block.planes.resize(layout().block_bytes(0, static_cast<int64_t>(ids.size())));
  return block;
}

// Header and planes; the checksums go over every byte.
void encode_block(benchmark::State& state) {
  const BlockContext context = BlockContext::of(identity(), layout());
  const Block block = block_of(prompt(kBlock, 1), root_key(identity()));
  counted_iterations(state, [&] { ISTHMUS_CHECK(!encode_block_header(block, context).empty()); });
}
BENCHMARK(encode_block)->Iterations(50);

void parse_block_file(benchmark::State& state) {
  const BlockContext context = BlockContext::of(identity(), layout());
  const Block block = block_of(prompt(kBlock, 1), root_key(identity()));
  Bytes file = encode_block_header(block, context);
  file.insert(file.end(), block.planes.begin(), block.planes.end());
  counted_iterations(state, [&] { ISTHMUS_CHECK(parse_block(file, context, "block").ok()); });
}
BENCHMARK(parse_block_file)->Iterations(50);

// Durable: temporary file, sync, rename, sync; then read and checked.
void write_and_read_files(benchmark::State& state) {
  const TempDir dir;
  const BlockContext context = BlockContext::of(identity(), layout());
  PosixFs fs;
  BlockDirectory blocks(dir.path() / "blocks", fs, context);
  ISTHMUS_CHECK(blocks.open().ok());
  const Block block = block_of(prompt(kBlock, 1), root_key(identity()));
  ISTHMUS_CHECK(blocks.write(block).ok());  // makes the block's folder
  counted_iterations(state, [&] {
    ISTHMUS_CHECK(blocks.write(block).ok());
    ISTHMUS_CHECK(blocks.read(block.key).ok());
  });
}
BENCHMARK(write_and_read_files)->Iterations(20);

std::unique_ptr<BlockStore> memory_store(uint64_t ram_bytes) {
  BlockStoreOptions options;
  options.ram_bytes = ram_bytes;
  options.memory_floor_bytes = 0;  // depends on the machine
  return BlockStore::create(std::move(options), layout(), identity()).take();
}

// Rows of [first, end of ids), as the engine or a receiver hands them over.
void put_chain(BlockStore& store, const Ids& ids, int64_t first, const BlockKey& parent,
               const Source& source = {}) {
  const auto size = static_cast<int64_t>(ids.size());
  const auto sink = store.open_chain({ids, first, source, parent, {}});
  for (int64_t a = first; a < size; a += kBlock) {
    const int64_t b = std::min<int64_t>(a + kBlock, size);
    ISTHMUS_CHECK(sink->put(a, b, Bytes(store.layout().block_bytes(a, b))).ok());
  }
  ISTHMUS_CHECK(sink->seal(size).ok());
}

// New prompts of ten blocks and a tail each; from the third on each one makes others go.
void insert_and_evict(benchmark::State& state) {
  const auto store = memory_store(3 * 10 * layout().block_bytes(0, kBlock));
  const BlockKey root = root_key(identity());
  std::vector<Ids> prompts;
  for (uint64_t i = 0; i < 16; ++i) prompts.push_back(prompt(10 * kBlock + 40, i));
  counted_iterations(state, [&] {
    for (const Ids& ids : prompts) put_chain(*store, ids, 0, root);
  });
  ISTHMUS_CHECK(store->stats().evicted_ram > 100);
}
BENCHMARK(insert_and_evict)->Iterations(2);

// Prompts of 7,680 tokens: known to the end, known in half, unknown.
void longest_prefix(benchmark::State& state) {
  const auto store = memory_store(uint64_t{1} << 30);
  Ids known = prompt(30 * kBlock, 1);
  for (uint64_t i = 0; i < 8; ++i) put_chain(*store, prompt(30 * kBlock, i), 0, root_key(identity()));
  Ids half = known;
  half[15 * kBlock + 100] ^= 1;
  const Ids unknown = prompt(30 * kBlock, 99);
  counted_iterations(state, [&] {
    ISTHMUS_CHECK(store->longest_prefix(known, 30 * kBlock - 1, nullptr).tokens == 30 * kBlock - 1);
    ISTHMUS_CHECK(store->longest_prefix(half, 30 * kBlock - 1, nullptr).tokens == 15 * kBlock + 100);
    ISTHMUS_CHECK(store->cached_tokens(unknown, 30 * kBlock - 1, nullptr) == 0);
  });
}
BENCHMARK(longest_prefix)->Iterations(10);

// Native blocks, and behind them those of three prefill engines.
void longest_bridged_prefix(benchmark::State& state) {
  const auto store = memory_store(uint64_t{1} << 30);
  const Ids ids = prompt(16 * kBlock, 1);
  const Ids native(ids.begin(), ids.begin() + 8 * kBlock);
  put_chain(*store, native, 0, root_key(identity()));
  const BlockKey parent = store->longest_prefix(native, 8 * kBlock, nullptr).blocks.back()->key;
  for (const char* producer : {"one", "two", "three"})
    put_chain(*store, ids, 8 * kBlock, parent, {SourceKind::kProject, sha256(producer)});
  counted_iterations(state, [&] {
    const CachedPrefix found = store->longest_prefix(ids, 16 * kBlock - 1, nullptr);
    ISTHMUS_CHECK(found.tokens == 16 * kBlock - 1 && found.source.kind == SourceKind::kProject);
  });
}
BENCHMARK(longest_bridged_prefix)->Iterations(10);

std::vector<IndexRow> index_rows(int n) {
  std::vector<IndexRow> rows;
  BlockKey parent = root_key(identity());
  for (int i = 0; i < n; ++i) {
    const Block block = block_of(prompt(kBlock, static_cast<uint64_t>(i)), parent);
    rows.push_back({BlockInfo::of(block), 40'000, static_cast<uint64_t>(i)});
    parent = block.key;
  }
  return rows;
}

void index_put_and_remove(benchmark::State& state) {
  const TempDir dir;
  Index index = Index::open(dir.path() / "index.db").take();
  const std::vector<IndexRow> rows = index_rows(100);
  counted_iterations(state, [&] {
    for (const IndexRow& row : rows) ISTHMUS_CHECK(index.put(row).ok());
    for (size_t i = 0; i < rows.size(); i += 2) ISTHMUS_CHECK(index.remove(rows[i].info.key).ok());
  });
}
BENCHMARK(index_put_and_remove)->Iterations(1);

void index_load_and_touch(benchmark::State& state) {
  const TempDir dir;
  Index index = Index::open(dir.path() / "index.db").take();
  std::vector<std::pair<BlockKey, uint64_t>> uses;
  for (const IndexRow& row : index_rows(200)) {
    ISTHMUS_CHECK(index.put(row).ok());
    uses.emplace_back(row.info.key, row.last_use + 1'000);
  }
  counted_iterations(state, [&] {
    ISTHMUS_CHECK(index.load()->size() == uses.size());
    ISTHMUS_CHECK(index.touch(uses).ok());
  });
}
BENCHMARK(index_load_and_touch)->Iterations(2);

}  // namespace
}  // namespace isthmus
