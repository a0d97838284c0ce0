// SPDX-License-Identifier: Apache-2.0
#include "store/index.h"

#include <sqlite3.h>

#include <cstring>
#include <string>

namespace isthmus {
namespace {

constexpr int kSchemaVersion = 1;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS blocks (key BLOB PRIMARY KEY, parent BLOB NOT NULL, first_token INTEGER NOT "
    "NULL, count INTEGER NOT NULL, ids BLOB NOT NULL, source INTEGER NOT NULL, producer BLOB NOT NULL, "
    "file_bytes INTEGER NOT NULL, last_use INTEGER NOT NULL) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

struct CloseDb {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Db = std::unique_ptr<sqlite3, CloseDb>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

Status sql_error(sqlite3* db, const char* what) {
  const int rc = sqlite3_errcode(db);
  const Code code = rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB ? Code::kCorrupt
                    : rc == SQLITE_FULL                         ? Code::kResourceExhausted
                                                                : Code::kIo;
  return {code, std::string("index: ") + what + ": " + sqlite3_errmsg(db)};
}

Status execute(sqlite3* db, const char* sql) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return sql_error(db, "execute");
  return {};
}

Result<Statement> prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* s = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &s, nullptr) != SQLITE_OK) return sql_error(db, "prepare");
  return Statement(s);
}

void bind_blob(sqlite3_stmt* s, int at, std::span<const std::byte> bytes) {
  sqlite3_bind_blob64(s, at, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}
void bind_digest(sqlite3_stmt* s, int at, const Digest& d) {
  bind_blob(s, at, std::as_bytes(std::span(d.bytes)));
}

std::span<const std::byte> column_blob(sqlite3_stmt* s, int at) {
  const void* data = sqlite3_column_blob(s, at);  // before the length, as SQLite asks
  return {static_cast<const std::byte*>(data), static_cast<size_t>(sqlite3_column_bytes(s, at))};
}
bool read_digest(sqlite3_stmt* s, int at, Digest* d) {
  const auto blob = column_blob(s, at);
  if (blob.size() != d->bytes.size()) return false;
  std::memcpy(d->bytes.data(), blob.data(), blob.size());
  return true;
}

bool read_row(sqlite3_stmt* s, IndexRow* row) {
  BlockInfo& info = row->info;
  const bool digests = read_digest(s, 0, &info.key) && read_digest(s, 1, &info.parent) &&
                       read_digest(s, 6, &info.source.producer);
  const auto ids = column_blob(s, 4);
  const int64_t kind = sqlite3_column_int64(s, 5);
  if (!digests || ids.empty() || ids.size() % sizeof(TokenId) != 0 || kind < 0 ||
      kind > static_cast<int64_t>(SourceKind::kProject)) {
    return false;
  }
  info.first_token = sqlite3_column_int64(s, 2);
  info.source.kind = static_cast<SourceKind>(kind);
  info.ids.resize(ids.size() / sizeof(TokenId));
  std::memcpy(info.ids.data(), ids.data(), ids.size());
  row->file_bytes = static_cast<uint64_t>(sqlite3_column_int64(s, 7));
  row->last_use = static_cast<uint64_t>(sqlite3_column_int64(s, 8));
  return sqlite3_column_int64(s, 3) == static_cast<int64_t>(info.ids.size()) && info.first_token >= 0 &&
         block_key(info.parent, info.source, info.ids) == info.key;
}

// Steps a statement that returns no rows and makes it ready for the next use.
Status run(sqlite3* db, sqlite3_stmt* s, const char* what) {
  const bool done = sqlite3_step(s) == SQLITE_DONE;
  const Status status = done ? Status() : sql_error(db, what);
  sqlite3_reset(s);
  return status;
}

Result<int> user_version(sqlite3* db) {
  ASSIGN_OR_RETURN(const Statement s, prepare(db, "PRAGMA user_version"));
  if (sqlite3_step(s.get()) != SQLITE_ROW) return sql_error(db, "user_version");
  return sqlite3_column_int(s.get(), 0);
}

}  // namespace

struct Index::Impl {
  Db db;
  Statement put;
  Statement remove;
  Statement touch;
};

Index::Index(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Result<Index> Index::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int rc = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  impl->db.reset(db);
  if (rc != SQLITE_OK) return Status(Code::kIo, "index: cannot open " + path.string());
  sqlite3_extended_result_codes(db, 0);
  // The files are the truth: losing the last rows in a power cut costs a header read at the next start.
  TRY(execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"));
  ASSIGN_OR_RETURN(const int version, user_version(db));
  if (version != 0 && version != kSchemaVersion) {
    return Status(Code::kCorrupt, "index: version " + std::to_string(version) + ", expected " +
                                      std::to_string(kSchemaVersion));
  }
  TRY(execute(db, kSchema));
  ASSIGN_OR_RETURN(impl->put, prepare(db, "INSERT OR REPLACE INTO blocks VALUES (?,?,?,?,?,?,?,?,?)"));
  ASSIGN_OR_RETURN(impl->remove, prepare(db, "DELETE FROM blocks WHERE key = ?"));
  ASSIGN_OR_RETURN(impl->touch, prepare(db, "UPDATE blocks SET last_use = ?2 WHERE key = ?1"));
  return Index(std::move(impl));
}

void Index::delete_files(const std::filesystem::path& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::error_code ignored;
    std::filesystem::remove(std::filesystem::path(path) += suffix, ignored);
  }
}

Result<std::vector<IndexRow>> Index::load() {
  sqlite3* db = impl_->db.get();
  ASSIGN_OR_RETURN(const Statement s, prepare(db, "SELECT * FROM blocks"));
  std::vector<IndexRow> rows;
  int rc = SQLITE_ROW;
  while ((rc = sqlite3_step(s.get())) == SQLITE_ROW) {
    IndexRow row;
    if (read_row(s.get(), &row)) rows.push_back(std::move(row));
  }
  if (rc != SQLITE_DONE) return sql_error(db, "load");
  return rows;
}

Status Index::put(const IndexRow& row) {
  sqlite3_stmt* s = impl_->put.get();
  const BlockInfo& info = row.info;
  bind_digest(s, 1, info.key);
  bind_digest(s, 2, info.parent);
  sqlite3_bind_int64(s, 3, info.first_token);
  sqlite3_bind_int64(s, 4, static_cast<int64_t>(info.ids.size()));
  bind_blob(s, 5, std::as_bytes(std::span(info.ids)));
  sqlite3_bind_int64(s, 6, static_cast<int64_t>(info.source.kind));
  bind_digest(s, 7, info.source.producer);
  sqlite3_bind_int64(s, 8, static_cast<int64_t>(row.file_bytes));
  sqlite3_bind_int64(s, 9, static_cast<int64_t>(row.last_use));
  return run(impl_->db.get(), s, "put");
}

Status Index::remove(const BlockKey& key) {
  bind_digest(impl_->remove.get(), 1, key);
  return run(impl_->db.get(), impl_->remove.get(), "remove");
}

Status Index::touch(std::span<const std::pair<BlockKey, uint64_t>> uses) {
  sqlite3* db = impl_->db.get();
  TRY(execute(db, "BEGIN"));
  Status status;
  for (const auto& [key, tick] : uses) {
    bind_digest(impl_->touch.get(), 1, key);
    sqlite3_bind_int64(impl_->touch.get(), 2, static_cast<int64_t>(tick));
    status = run(db, impl_->touch.get(), "touch");
    if (!status.ok()) break;
  }
  TRY(execute(db, status.ok() ? "COMMIT" : "ROLLBACK"));
  return status;
}

}  // namespace isthmus
