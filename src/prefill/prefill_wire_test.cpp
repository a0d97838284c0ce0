// SPDX-License-Identifier: Apache-2.0
#include "prefill/prefill_wire.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

constexpr PrefillLimits kLimits{.vocab = 100, .max_tokens = 8};

PrefillCall sample_call() {
  PrefillCall call;
  call.transfer_id = "0123456789abcdef0123456789abcdef";
  call.ids = {0, 99, 7};
  call.resume_from = 2;
  call.identity = sha256("decoder");
  call.mode = SourceKind::kKv;
  return call;
}

TEST(PrefillCall, RoundTrip) {
  const PrefillCall call = sample_call();
  const auto parsed = parse_prefill_call(prefill_call_text(call), kLimits);
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->transfer_id, call.transfer_id);
  EXPECT_EQ(parsed->ids, call.ids);
  EXPECT_EQ(parsed->resume_from, 2);
  EXPECT_EQ(parsed->identity, call.identity);
  EXPECT_EQ(parsed->mode, SourceKind::kKv);
}

TEST(PrefillCall, RefusesBadFieldsByName) {
  struct Row {
    const char* field;
    const char* value;    // JSON; null pointer: the field is left out
    const char* message;  // part of it
  };
  const Row rows[] = {
      {"transfer", nullptr, "'transfer' is missing"},
      {"transfer", "7", "'transfer': expected"},
      {"transfer", R"("0123456789abcdef0123456789abcde")", "'transfer': expected 32"},
      {"transfer", R"("0123456789ABCDEF0123456789ABCDEF")", "'transfer': expected 32"},
      {"transfer", R"("0123456789abcdef0123456789abcdeg")", "'transfer': expected 32"},
      {"transfer", R"("../../../../../../../etc/passwd")", "'transfer': expected 32"},
      {"ids", nullptr, "'ids' is missing"},
      {"ids", "\"text\"", "'ids': expected a list"},
      {"ids", "[]", "'ids': expected 2 to 8 tokens, got 0"},
      {"ids", "[1]", "'ids': expected 2 to 8 tokens, got 1"},
      {"ids", "[1,2,3,4,5,6,7,8,9]", "'ids': expected 2 to 8 tokens, got 9"},
      {"ids", "[1,100,3]", "'ids[1]': expected a token id below 100, got 100"},
      {"ids", "[1,-1,3]", "'ids[1]': expected a token id below 100, got -1"},
      {"ids", "[1,2.5,3]", "'ids[1]'"},
      {"ids", "[1,2,\"3\"]", "'ids[2]'"},
      {"ids", "[1,2,null]", "'ids[2]'"},
      {"ids", "[1,2,18446744073709551617]", "'ids[2]'"},
      {"ids", "[1,2,[3]]", "'ids[2]'"},
      {"resume_from", nullptr, "'resume_from' is missing"},
      {"resume_from", "-1", "'resume_from': expected 0 to 2, got -1"},
      {"resume_from", "3", "'resume_from': expected 0 to 2, got 3"},
      {"resume_from", "0.5", "'resume_from': expected an integer"},
      {"resume_from", "\"0\"", "'resume_from': expected an integer"},
      {"identity", nullptr, "'identity' is missing"},
      {"identity", "\"00\"", "'identity': expected 64"},
      {"identity", "{}", "'identity': expected"},
      {"mode", nullptr, "'mode' is missing"},
      {"mode", "\"native\"", "'mode': expected kv or project"},
      {"mode", "\"\"", "'mode': expected kv or project"},
      {"mode", "1", "'mode': expected"},
      {"address", "\"10.0.0.1\"", "\"address\"' is not known"},
  };
  for (const Row& r : rows) {
    Json j = *parse_json(prefill_call_text(sample_call()), "test");
    if (r.value == nullptr) {
      j.erase(r.field);
    } else {
      j[r.field] = *parse_json(r.value, "test");
    }
    const auto parsed = parse_prefill_call(dump_json(j), kLimits);
    const std::string what = std::string(r.field) + "=" + (r.value == nullptr ? "(none)" : r.value);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << what;
    EXPECT_NE(parsed.status().message().find(r.message), std::string::npos)
        << what << ": " << parsed.status().message();
  }
  for (const char* text : {"", "null", "[]", "7", "{", "{}", "\"x\"", "{\"ids\":"}) {
    EXPECT_EQ(parse_prefill_call(text, kLimits).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(PrefillReport, RoundTripAndRefusal) {
  const PrefillReport report{
      .computed_tokens = 5, .reused_tokens = 64, .shipped_tokens = 3, .engine_s = 0.25};
  const auto parsed = parse_prefill_report(prefill_report_text(report));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->computed_tokens, 5);
  EXPECT_EQ(parsed->reused_tokens, 64);
  EXPECT_EQ(parsed->shipped_tokens, 3);
  EXPECT_EQ(parsed->engine_s, 0.25);
  for (const char* text : {"", "[]", "{}", R"({"computed_tokens":1,"reused_tokens":0,"shipped_tokens":0})",
                           R"({"computed_tokens":-1,"reused_tokens":0,"shipped_tokens":0,"engine_s":0})"}) {
    EXPECT_FALSE(parse_prefill_report(text).ok()) << text;
  }
}

TEST(PrefillError, EveryCodeSurvivesTheTrip) {
  for (int i = static_cast<int>(Code::kInvalidArgument); i <= static_cast<int>(Code::kInternal); ++i) {
    const Status error(static_cast<Code>(i), "why \"it\" failed");
    const int http = http_status_of(error.code());
    EXPECT_TRUE(http >= 400 && http < 600) << http;
    const Status back = parse_error(http, error_text(error));
    EXPECT_EQ(back.code(), error.code());
    EXPECT_EQ(back.message(), error.message());
  }
  for (const char* text :
       {"", "<html>", "[]", "{}", R"({"error":"text"})", R"({"error":{"code":"mismatch"}})"}) {
    EXPECT_EQ(parse_error(502, text).code(), Code::kUnavailable) << text;
  }
  EXPECT_EQ(parse_error(500, R"({"error":{"code":"ok","message":"m"}})").code(), Code::kUnavailable);
}

}  // namespace
}  // namespace isthmus
