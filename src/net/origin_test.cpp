// SPDX-License-Identifier: Apache-2.0
#include "net/origin.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

TEST(Origin, Table) {
  const OriginPolicy policy{{"box.lan", "192.168.1.5"}};
  struct Row {
    const char* host;    // nullptr: absent
    const char* origin;  // nullptr: absent
    Code expected;
  };
  const Row rows[] = {
      {"127.0.0.1:8012", nullptr, Code::kOk},
      {"localhost", nullptr, Code::kOk},
      {"[::1]:8012", nullptr, Code::kOk},
      {"Box.LAN:8012", nullptr, Code::kOk},
      {"192.168.1.5:8012", nullptr, Code::kOk},
      {"localhost:8012", "http://localhost:3000", Code::kOk},
      {"localhost:8012", "https://box.lan", Code::kOk},
      {nullptr, nullptr, Code::kInvalidArgument},
      {"", nullptr, Code::kInvalidArgument},
      {"a b", nullptr, Code::kInvalidArgument},
      {"localhost:99999", nullptr, Code::kInvalidArgument},
      {"evil.example", nullptr, Code::kUnauthenticated},
      {"localhost.evil.example", nullptr, Code::kUnauthenticated},
      {"192.168.1.6", nullptr, Code::kUnauthenticated},
      {"localhost", "http://evil.example", Code::kUnauthenticated},
      {"localhost", "null", Code::kUnauthenticated},
      {"localhost", "", Code::kUnauthenticated},
      {"localhost", "file://", Code::kUnauthenticated},
      {"localhost", "http://localhost/path", Code::kUnauthenticated},
      {"localhost", "http://localhost@evil.example", Code::kUnauthenticated},
  };
  for (const Row& row : rows) {
    const auto value = [](const char* text) {
      return text == nullptr ? std::nullopt : std::optional<std::string_view>(text);
    };
    EXPECT_EQ(check_origin(policy, value(row.host), value(row.origin)).code(), row.expected)
        << (row.host ? row.host : "-") << " / " << (row.origin ? row.origin : "-");
  }
}

}  // namespace
}  // namespace isthmus
