// SPDX-License-Identifier: Apache-2.0
// Where unit tests and benchmarks find tests/golden: a path of the source tree, compiled into one small file
// (made by cmake/layer.cmake), so that no other object depends on where the tree lies. Not for the program.
#pragma once

#include <filesystem>

namespace isthmus {

// The file or folder `name` of tests/golden.
std::filesystem::path test_data(const std::filesystem::path& name);

}  // namespace isthmus
