// SPDX-License-Identifier: Apache-2.0
// For tests of the store: plane bytes that follow from tokens and source, so that any block can be checked;
// chains put and prefixes read as the other stages do it; a file system that fails, stalls or exits on
// demand.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "base/temp_dir.h"
#include "store/block_store.h"

namespace isthmus::store_test {

inline constexpr int kP = 4;
using Ids = std::vector<TokenId>;

inline PlaneLayout tiny_layout() {
  return native_layout(2, 2, kP, DType::kBF16);
}
inline Digest identity(std::string_view name = "model") {
  return sha256(name);
}
inline Source bridged(SourceKind kind, std::string_view producer) {
  return {kind, sha256(producer)};
}
inline const Source kNative{};

// Small sizes; no floors, which depend on the machine.
inline BlockStoreOptions options(const std::filesystem::path& directory = {}) {
  BlockStoreOptions o;
  o.ram_bytes = 1 << 20;
  o.directory = directory;
  o.disk_quota_bytes = 1 << 20;
  o.disk_floor_bytes = 0;
  o.memory_floor_bytes = 0;
  o.write_queue_bytes = 1 << 20;
  return o;
}

inline std::unique_ptr<BlockStore> open_store(const BlockStoreOptions& o, std::string_view model = "model") {
  auto store = BlockStore::create(o, tiny_layout(), identity(model));
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  return store.ok() ? store.take() : nullptr;
}

// Planes of tokens [a, b): each row follows from the plane, the source and all tokens up to its own.
inline Bytes rows(std::span<const TokenId> ids, int64_t a, int64_t b, const Source& source) {
  const PlaneLayout layout = tiny_layout();
  ByteWriter w;
  for (size_t p = 0; p < layout.planes.size(); ++p) {
    for (int64_t t = a; t < b; ++t) {
      const auto past = std::as_bytes(ids.first(static_cast<size_t>(t) + 1));
      w.write(static_cast<uint32_t>(
          xxh3_64(past, p * 16 + static_cast<uint64_t>(source.kind) * 4 + source.producer.bytes[0])));
    }
  }
  return w.take();
}

// As the native engine or a receiver does: continues after the prefix that is there for this source. The
// token up to which rows are stored, and the first error.
inline Status put_prompt(PrefixStore& store, const Ids& ids, const Source& source) {
  const auto size = static_cast<int64_t>(ids.size());
  const CachedPrefix warm = store.longest_prefix(ids, size, &source);
  ChainSpec chain;
  chain.ids = ids;
  chain.first = warm.tokens / kP * kP;
  chain.source = source;
  chain.parent = chain.first > 0 ? warm.blocks[static_cast<size_t>(chain.first / kP) - 1]->key
                                 : root_key(store.identity());
  if (source.kind != SourceKind::kNative) chain.transfer_id = "transfer";
  const int64_t first = chain.first;
  const auto sink = store.open_chain(std::move(chain));
  for (int64_t a = first; a < size; a += kP) {
    const int64_t b = std::min<int64_t>(a + kP, size);
    TRY(sink->put(a, b, rows(ids, a, b, source)));
  }
  return sink->seal(size);
}

// The prefix, after checking that it is one: blocks without gaps, of the prompt's tokens, one bridged source
// at most, and the bytes that belong to them.
inline CachedPrefix checked_prefix(PrefixStore& store, const Ids& ids, int64_t limit,
                                   const Source* only = nullptr) {
  CachedPrefix found = store.longest_prefix(ids, limit, only);
  EXPECT_LE(found.tokens, limit);
  int64_t end = 0;
  BlockKey parent = root_key(store.identity());
  bool left_native = false;
  for (const BlockPtr& block : found.blocks) {
    EXPECT_EQ(block->first_token, end);
    EXPECT_EQ(block->parent, parent);
    left_native = left_native || block->source.kind != SourceKind::kNative;
    EXPECT_EQ(block->source, left_native ? found.source : kNative);
    const int64_t used = std::min(block->last_token(), found.tokens);
    EXPECT_GT(used, end);
    EXPECT_TRUE(std::equal(ids.begin() + end, ids.begin() + used, block->ids.begin()));
    Ids own(ids.begin(), ids.begin() + end);
    own.insert(own.end(), block->ids.begin(), block->ids.end());
    EXPECT_EQ(block->planes, rows(own, end, block->last_token(), block->source));
    end = block->last_token();
    parent = block->key;
  }
  EXPECT_GE(end, found.tokens);
  return found;
}

inline int64_t tokens_of(PrefixStore& store, const Ids& ids, const Source* only = nullptr) {
  return checked_prefix(store, ids, static_cast<int64_t>(ids.size()), only).tokens;
}

// 0, 1, 2, … from `start`.
inline Ids count_up(int64_t n, TokenId start = 0) {
  Ids ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = start + static_cast<TokenId>(i);
  return ids;
}

// Calls `at` before and after each step of a write; an error is the step's result.
class FaultyFs final : public Fs {
 public:
  std::function<Status(std::string_view step)> at = [](std::string_view) { return Status(); };
  std::atomic<uint64_t> free = uint64_t{1} << 40;

  Status write_file(const std::filesystem::path& path,
                    std::span<const std::span<const std::byte>> parts) override {
    TRY(at("create"));
    const std::span<const std::byte> torn = parts[0].first(parts[0].size() / 2);
    TRY(inner_.write_file(path, std::span(&torn, 1)));
    TRY(at("torn"));
    TRY(inner_.write_file(path, parts));
    return at("written");
  }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    TRY(inner_.rename(from, to));
    return at("renamed");
  }
  Status sync_directory(const std::filesystem::path& path) override {
    TRY(inner_.sync_directory(path));
    return at("synced");
  }
  Status remove(const std::filesystem::path& path) override { return inner_.remove(path); }
  Result<Bytes> read_file(const std::filesystem::path& path) override {
    TRY(at("read"));
    auto bytes = inner_.read_file(path);
    TRY(at("was read"));
    return bytes;
  }
  Result<uint64_t> free_bytes(const std::filesystem::path&) override { return free.load(); }

 private:
  PosixFs inner_;
};

inline std::vector<std::filesystem::path> files_under(const std::filesystem::path& folder,
                                                      std::string_view extension) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}
inline size_t quarantined_files(const std::filesystem::path& directory, std::string_view model = "model") {
  return files_under(directory / identity(model).hex() / "quarantine", ".isb").size();
}
inline std::filesystem::path file_of(const std::filesystem::path& directory, const BlockKey& key,
                                     std::string_view model = "model") {
  return directory / identity(model).hex() / key.hex().substr(0, 2) / (key.hex() + ".isb");
}

}  // namespace isthmus::store_test
