// SPDX-License-Identifier: Apache-2.0
#include "apps/eval_documents.h"

#include <algorithm>

#include "base/fs.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

constexpr size_t kMaxDocumentBytes = size_t{16} << 20;

Result<std::vector<stdfs::path>> files_of(const stdfs::path& folder) {
  std::error_code error;
  std::vector<stdfs::path> files;
  stdfs::directory_iterator it(folder, error);
  for (const stdfs::directory_iterator end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
  }
  if (error) return Status(Code::kIo, folder.string() + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<EvalDocuments> read_documents(const stdfs::path& folder, const Tokenizer& tokenizer,
                                     int64_t wanted_tokens) {
  ASSIGN_OR_RETURN(const std::vector<stdfs::path> files, files_of(folder));
  EvalDocuments documents;
  for (const stdfs::path& path : files) {
    ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxDocumentBytes));
    EvalDocument d;
    d.name = path.filename().string();
    d.sha256 = sha256(as_byte_span(text));
    ASSIGN_OR_RETURN(d.ids, tokenizer.encode(text));
    d.tokens = static_cast<int64_t>(d.ids.size());
    if (d.tokens < wanted_tokens) {
      documents.too_short.push_back(d.name);
      continue;
    }
    d.ids.resize(static_cast<size_t>(wanted_tokens));
    documents.used.push_back(std::move(d));
  }
  if (documents.used.empty()) {
    return Status(Code::kInvalidArgument, folder.string() + ": none of its " + std::to_string(files.size()) +
                                              " files has " + std::to_string(wanted_tokens) + " tokens");
  }
  return documents;
}

}  // namespace isthmus
