// SPDX-License-Identifier: Apache-2.0
#include "front/routes.h"

#include <array>

#include "net/url.h"

namespace isthmus {
namespace {

struct Row {
  std::string_view path;  // one that ends with '/' takes what follows as its argument
  std::string_view method;
  Route route;
  bool needs_token;
};

constexpr std::array<Row, 8> kRows = {{
    {"/v1/chat/completions", "POST", Route::kChat, false},
    {"/v1/completions", "POST", Route::kCompletion, false},
    {"/v1/models", "GET", Route::kModels, false},
    {"/v1/models/", "GET", Route::kModel, false},
    {"/v1/identity", "GET", Route::kIdentity, true},
    {"/v1/projection", "GET", Route::kProjection, true},
    {"/health", "GET", Route::kHealth, false},
    {"/stats", "GET", Route::kStats, true},
}};

bool matches(const Row& row, std::string_view path) {
  return row.path.ends_with('/') ? path.size() > row.path.size() && path.starts_with(row.path)
                                 : path == row.path;
}

bool serves(const Row& row, std::string_view method) {
  return method == row.method || (method == "HEAD" && row.method == "GET");
}

}  // namespace

RouteMatch find_route(std::string_view method, std::string_view path) {
  RouteMatch out;
  for (const Row& row : kRows) {
    if (!matches(row, path)) continue;
    out.needs_token = row.needs_token;
    if (!serves(row, method)) {
      out.allowed = row.method;
      return out;
    }
    if (row.path.ends_with('/')) {
      auto argument = percent_decode(path.substr(row.path.size()));
      if (!argument.ok()) return out;
      out.argument = argument.take();
    }
    out.route = row.route;
    return out;
  }
  return out;
}

}  // namespace isthmus
