// SPDX-License-Identifier: Apache-2.0
#include "flow/identity.h"

#include <set>

namespace isthmus {
namespace {

std::string shown(const Json* j) {
  if (j == nullptr) return "nothing";
  std::string s = dump_ascii(*j);
  return s.size() <= 80 ? s : s.substr(0, 77) + "...";
}

const Json* member(const Json& j, const std::string& key) {
  const auto it = j.find(key);
  return it == j.end() ? nullptr : &*it;
}

std::string difference(const Json& here, const Json& there, const std::string& path) {
  if (here == there) return "";
  if (!here.is_object() || !there.is_object()) {
    return (path.empty() ? "value" : path) + ": " + shown(&here) + " here, " + shown(&there) + " there";
  }
  std::set<std::string> keys;
  for (const auto& item : here.items()) keys.insert(item.key());
  for (const auto& item : there.items()) keys.insert(item.key());
  for (const std::string& key : keys) {
    const Json* a = member(here, key);
    const Json* b = member(there, key);
    const std::string name = path.empty() ? key : path + "." + key;
    if (a == nullptr || b == nullptr) return name + ": " + shown(a) + " here, " + shown(b) + " there";
    std::string found = difference(*a, *b, name);
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

Identity Identity::of(Json fields) {
  Identity id;
  id.digest = sha256(dump_canonical(fields));
  id.fields = std::move(fields);
  return id;
}

Result<Identity> Identity::from_peer(const Json& fields, std::string_view digest_hex) {
  if (!fields.is_object()) return Status(Code::kInvalidArgument, "identity: fields are not an object");
  Identity id = of(fields);
  if (id.digest.hex() != digest_hex) {
    return Status(Code::kMismatch, "identity: digest of the fields is " + id.digest.hex() +
                                       ", the peer says " + std::string(digest_hex.substr(0, 64)));
  }
  return id;
}

std::string first_difference(const Json& here, const Json& there) {
  return difference(here, there, "");
}

}  // namespace isthmus
