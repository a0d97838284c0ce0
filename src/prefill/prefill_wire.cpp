// SPDX-License-Identifier: Apache-2.0
#include "prefill/prefill_wire.h"

#include <algorithm>
#include <array>
#include <limits>

namespace isthmus {
namespace {

constexpr std::string_view kWhere = "prefill call";
constexpr size_t kTransferDigits = 32;
constexpr size_t kMaxMessageBytes = 2000;  // of an error that a peer sent

Status field_error(std::string_view field, const std::string& expected, const std::string& got) {
  return {Code::kInvalidArgument, std::string(kWhere) + ": field '" + std::string(field) + "': expected " +
                                      expected + ", got " + got};
}

bool is_lower_hex(std::string_view s) {
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status refuse_unknown_fields(const Json& j) {
  constexpr std::array kFields = {"transfer", "ids", "resume_from", "identity", "instance", "mode"};
  if (!j.is_object()) return {Code::kInvalidArgument, std::string(kWhere) + ": expected an object"};
  for (const auto& item : j.items()) {
    if (std::find(kFields.begin(), kFields.end(), item.key()) == kFields.end()) {
      return {Code::kInvalidArgument, std::string(kWhere) + ": field '" +
                                          dump_ascii(Json(item.key().substr(0, 64))) + "' is not known"};
    }
  }
  return {};
}

Result<std::vector<TokenId>> parse_ids(const Json& j, const PrefillLimits& limits) {
  const auto it = j.find("ids");
  if (it == j.end()) return Status(Code::kInvalidArgument, std::string(kWhere) + ": field 'ids' is missing");
  if (!it->is_array()) return field_error("ids", "a list", it->type_name());
  const auto tokens = static_cast<int64_t>(it->size());
  if (tokens < 2 || tokens > limits.max_tokens) {
    return field_error("ids", "2 to " + std::to_string(limits.max_tokens) + " tokens",
                       std::to_string(tokens));
  }
  std::vector<TokenId> ids;
  ids.reserve(it->size());
  for (const Json& id : *it) {
    const bool in_range = id.is_number_unsigned() &&
                          id.get<uint64_t>() < static_cast<uint64_t>(limits.vocab) &&
                          id.get<uint64_t>() <= std::numeric_limits<TokenId>::max();
    if (!in_range) {
      return field_error("ids[" + std::to_string(ids.size()) + "]",
                         "a token id below " + std::to_string(limits.vocab),
                         id.is_number() ? dump_ascii(id) : id.type_name());
    }
    ids.push_back(static_cast<TokenId>(id.get<uint64_t>()));
  }
  return ids;
}

Result<int64_t> parse_resume(const Json& j, int64_t tokens) {
  ASSIGN_OR_RETURN(const int64_t resume, get_int(j, "resume_from", kWhere));
  if (resume < 0 || resume > tokens - 1) {
    return field_error("resume_from", "0 to " + std::to_string(tokens - 1), std::to_string(resume));
  }
  return resume;
}

Result<SourceKind> parse_mode(const Json& j) {
  ASSIGN_OR_RETURN(const std::string mode, get_string(j, "mode", kWhere));
  const Result<SourceKind> kind = parse_source_kind(mode);
  if (kind.ok() && *kind != SourceKind::kNative) return *kind;
  return field_error("mode", "kv or project", dump_ascii(Json(mode.substr(0, 32))));
}

Code code_of(std::string_view name, Code otherwise) {
  for (int i = static_cast<int>(Code::kInvalidArgument); i <= static_cast<int>(Code::kInternal); ++i) {
    if (code_name(static_cast<Code>(i)) == name) return static_cast<Code>(i);
  }
  return otherwise;
}

}  // namespace

std::string prefill_call_text(const PrefillCall& call) {
  Json j;
  j["transfer"] = call.transfer_id;
  j["ids"] = call.ids;
  j["resume_from"] = call.resume_from;
  j["identity"] = call.identity.hex();
  if (!call.instance.empty()) j["instance"] = call.instance;
  j["mode"] = source_kind_name(call.mode);
  return dump_json(j);
}

Result<PrefillCall> parse_prefill_call(std::string_view text, const PrefillLimits& limits) {
  ASSIGN_OR_RETURN(const Json j, parse_json(text, kWhere));
  TRY(refuse_unknown_fields(j));
  PrefillCall call;
  ASSIGN_OR_RETURN(call.transfer_id, get_string(j, "transfer", kWhere));
  if (call.transfer_id.size() != kTransferDigits || !is_lower_hex(call.transfer_id)) {
    return field_error("transfer", "32 lower-case hex digits",
                       dump_ascii(Json(call.transfer_id.substr(0, kTransferDigits + 1))));
  }
  ASSIGN_OR_RETURN(call.ids, parse_ids(j, limits));
  ASSIGN_OR_RETURN(call.resume_from, parse_resume(j, static_cast<int64_t>(call.ids.size())));
  ASSIGN_OR_RETURN(const std::string identity, get_string(j, "identity", kWhere));
  const std::optional<Digest> digest = Digest::from_hex(identity);
  if (!digest) {
    return field_error("identity", "64 lower-case hex digits", dump_ascii(Json(identity.substr(0, 65))));
  }
  call.identity = *digest;
  ASSIGN_OR_RETURN(const std::optional<std::string> instance, find_string(j, "instance", kWhere));
  call.instance = instance.value_or("");
  ASSIGN_OR_RETURN(call.mode, parse_mode(j));
  return call;
}

std::string prefill_report_text(const PrefillReport& report) {
  Json j;
  j["computed_tokens"] = report.computed_tokens;
  j["reused_tokens"] = report.reused_tokens;
  j["shipped_tokens"] = report.shipped_tokens;
  j["engine_s"] = report.engine_s;
  return dump_json(j);
}

Result<PrefillReport> parse_prefill_report(std::string_view text) {
  constexpr std::string_view where = "prefill report";
  ASSIGN_OR_RETURN(const Json j, parse_json(text, where));
  PrefillReport report;
  ASSIGN_OR_RETURN(report.computed_tokens, get_int(j, "computed_tokens", where));
  ASSIGN_OR_RETURN(report.reused_tokens, get_int(j, "reused_tokens", where));
  ASSIGN_OR_RETURN(report.shipped_tokens, get_int(j, "shipped_tokens", where));
  ASSIGN_OR_RETURN(report.engine_s, get_double(j, "engine_s", where));
  if (report.computed_tokens < 0 || report.reused_tokens < 0 || report.shipped_tokens < 0 ||
      report.engine_s < 0) {
    return Status(Code::kCorrupt, "prefill report: a count below 0");
  }
  return report;
}

std::string error_text(const Status& error) {
  Json j;
  j["error"]["code"] = code_name(error.code());
  j["error"]["message"] = error.message();
  return dump_json(j);
}

int http_status_of(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kNotFound:
      return 404;
    case Code::kMismatch:
      return 409;
    case Code::kCancelled:
      return 499;
    case Code::kResourceExhausted:
    case Code::kUnavailable:
      return 503;
    case Code::kDeadlineExceeded:
      return 504;
    case Code::kCorrupt:
    case Code::kIo:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

Status parse_error(int http_status, std::string_view text) {
  const std::string status = "HTTP status " + std::to_string(http_status);
  const Result<Json> j = parse_json(text, "error reply");
  if (!j.ok() || !j->is_object() || !j->contains("error")) return {Code::kUnavailable, status};
  const Result<std::string> code = get_string(j->at("error"), "code", "error reply");
  const Result<std::string> message = get_string(j->at("error"), "message", "error reply");
  if (!code.ok() || !message.ok()) return {Code::kUnavailable, status};
  return {code_of(*code, Code::kUnavailable), message->substr(0, kMaxMessageBytes)};
}

}  // namespace isthmus
