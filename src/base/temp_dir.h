// SPDX-License-Identifier: Apache-2.0
// A new folder for the time of a test or a benchmark; gone with its contents afterwards. Tests and benchmarks
// only.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/status.h"

namespace isthmus {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "isthmus-XXXXXX").string();
    ISTHMUS_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace isthmus
