// SPDX-License-Identifier: Apache-2.0
// The texts of an evaluation: the files of one folder in the order of their names, tokenized. Values; any
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/token.h"
#include "text/tokenizer.h"

namespace isthmus {

struct EvalDocument {
  std::string name;  // of the file
  Digest sha256;     // of the file
  int64_t tokens = 0;
  std::vector<TokenId> ids;  // the first ones, as many as were wanted
};

struct EvalDocuments {
  std::vector<EvalDocument> used;
  std::vector<std::string> too_short;
};

// The first `wanted_tokens` of each file. Errors: kInvalidArgument (no file has so many), kIo, those of the
// tokenizer.
Result<EvalDocuments> read_documents(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                     int64_t wanted_tokens);

}  // namespace isthmus
