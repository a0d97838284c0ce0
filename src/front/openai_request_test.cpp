// SPDX-License-Identifier: Apache-2.0
#include "front/openai_request.h"

#include "front/front_test_util.h"
#include "front/json_body.h"

namespace isthmus {
namespace {

struct BadRow {
  const char* fields;  // after "messages" or "prompt"
  int status;
  const char* param;
};

// Both endpoints.
const std::vector<BadRow> kBadCommon = {
    {R"("model":"other")", 404, "model"},
    {R"("model":7)", 400, "model"},
    {R"("temperature":999999)", 400, "temperature"},
    {R"("temperature":-0.1)", 400, "temperature"},
    {R"("temperature":"hot")", 400, "temperature"},
    {R"("temperature":true)", 400, "temperature"},
    {R"("top_p":-1)", 400, "top_p"},
    {R"("top_p":0)", 400, "top_p"},
    {R"("top_p":1.01)", 400, "top_p"},
    {R"("top_k":-1)", 400, "top_k"},
    {R"("top_k":1.5)", 400, "top_k"},
    {R"("min_p":2)", 400, "min_p"},
    {R"("seed":1180591620717411303424)", 400, "seed"},
    {R"("seed":9223372036854775808)", 400, "seed"},
    {R"("seed":0.5)", 400, "seed"},
    {R"("max_tokens":0)", 400, "max_tokens"},
    {R"("max_tokens":-1)", 400, "max_tokens"},
    {R"("max_tokens":"5")", 400, "max_tokens"},
    {R"("max_tokens":1.5)", 400, "max_tokens"},
    {R"("max_tokens":1e12)", 400, "max_tokens"},
    {R"("max_completion_tokens":0)", 400, "max_completion_tokens"},
    {R"("stop":5)", 400, "stop"},
    {R"("stop":"")", 400, "stop"},
    {R"("stop":["a",""])", 400, "stop"},
    {R"("stop":["a",1])", 400, "stop"},
    {R"("stop":["1","2","3","4","5"])", 400, "stop"},
    {R"("ignore_eos":1)", 400, "ignore_eos"},
    {R"("stream":"yes")", 400, "stream"},
    {R"("stream_options":[])", 400, "stream_options"},
    {R"("stream_options":{"include_usage":1})", 400, "stream_options.include_usage"},
    {R"("n":0)", 400, "n"},
    {R"("n":2)", 400, "n"},
    {R"("n":1000000)", 400, "n"},
    {R"("presence_penalty":0.5)", 501, "presence_penalty"},
    {R"("presence_penalty":3)", 400, "presence_penalty"},
    {R"("frequency_penalty":-0.5)", 501, "frequency_penalty"},
    {R"("repetition_penalty":1.1)", 501, "repetition_penalty"},
    {R"("logit_bias":{"5":-100})", 501, "logit_bias"},
    {R"("logit_bias":[1])", 400, "logit_bias"},
    {R"("response_format":{"type":"json_object"})", 501, "response_format"},
    {R"("response_format":{"type":1})", 400, "response_format.type"},
    {R"("response_format":{})", 400, "response_format.type"},
    {R"("response_format":"text")", 400, "response_format"},
    {R"("guided_regex":"a+")", 501, "guided_regex"},
};

const std::vector<BadRow> kBadChat = {
    {R"("logprobs":1)", 400, "logprobs"},
    {R"("logprobs":true,"top_logprobs":21)", 400, "top_logprobs"},
    {R"("top_logprobs":2)", 400, "top_logprobs"},
    {R"("tools":{})", 400, "tools"},
    {R"("tools":[{"type":"retrieval"}])", 400, "tools[0].type"},
    {R"("tools":[{"type":"function","function":{}}])", 400, "tools[0].function.name"},
    {R"("tool_choice":"required")", 501, "tool_choice"},
    {R"("tool_choice":"sometimes")", 400, "tool_choice"},
    {R"("chat_template_kwargs":[])", 400, "chat_template_kwargs"},
    {R"("add_generation_prompt":"yes")", 400, "add_generation_prompt"},
    {R"("continue_final_message":true,"add_generation_prompt":true)", 400, "continue_final_message"},
    {R"("continue_final_message":true)", 400, "continue_final_message"},
    {R"("modalities":["audio"])", 501, "modalities"},
    // The last of two equal keys counts.
    {R"("messages":[])", 400, "messages"},
    {R"("messages":null)", 400, "messages"},
    {R"("messages":"hi")", 400, "messages"},
    {R"("messages":["hi"])", 400, "messages[0]"},
    {R"("messages":[{"content":"hi"}])", 400, "messages[0].role"},
    {R"("messages":[{"role":"robot","content":"hi"}])", 400, "messages[0].role"},
    {R"("messages":[{"role":"user"}])", 400, "messages[0].content"},
    {R"("messages":[{"role":"user","content":null}])", 400, "messages[0].content"},
    {R"("messages":[{"role":"user","content":5}])", 400, "messages[0].content"},
    {R"("messages":[{"role":"user","content":["x"]}])", 400, "messages[0].content[0]"},
    {R"("messages":[{"role":"user","content":[{"type":"text"}]}])", 400, "messages[0].content[0].text"},
    {R"("messages":[{"role":"user","content":[{"type":"x"}]}])", 400, "messages[0].content[0].type"},
    {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}])", 501,
     "messages[0].content[0].type"},
    {R"("messages":[{"role":"user","content":"x","tool_calls":[]}])", 400, "messages[0].tool_calls"},
    {R"("messages":[{"role":"assistant","tool_calls":[{}]}])", 400, "messages[0].tool_calls[0].function"},
};

const std::vector<BadRow> kBadCompletion = {
    {R"("logprobs":6)", 400, "logprobs"},  {R"("logprobs":true)", 400, "logprobs"},
    {R"("echo":true)", 501, "echo"},       {R"("suffix":"x")", 501, "suffix"},
    {R"("best_of":2)", 501, "best_of"},    {R"("prompt":"")", 400, "prompt"},
    {R"("prompt":[])", 400, "prompt"},     {R"("prompt":["a"])", 400, "prompt"},
    {R"("prompt":[1,-1])", 400, "prompt"}, {R"("prompt":[18446744073709551615])", 400, "prompt"},
    {R"("prompt":[267])", 400, "prompt"},  // V = 267
    {R"("prompt":null)", 400, "prompt"},
};

void expect_refused(const HttpResponse& reply, const BadRow& row) {
  SCOPED_TRACE(row.fields);
  EXPECT_EQ(reply.status, row.status) << reply.body;
  const Json error = json_of(reply)["error"];
  EXPECT_EQ(error["param"], row.param);
  EXPECT_NE(error["message"].get<std::string>().find(row.status == 501 ? "" : "expected"), std::string::npos);
  EXPECT_EQ(error["type"], row.status == 404   ? "not_found_error"
                           : row.status == 501 ? "not_supported_error"
                                               : "invalid_request_error");
  const auto header = reply.headers.get("X-PD-Bridge");
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(parse_json(*header, "header")->at("skipped"), true);
}

TEST(OpenAiRequest, BadFieldsAreRefusedByName) {
  TestFront front([](const Request&, ReplySink&) { ADD_FAILURE() << "the handler was called"; });
  for (const auto* table : {&kBadCommon, &kBadChat}) {
    for (const BadRow& row : *table) expect_refused(front.chat("," + std::string(row.fields)), row);
  }
  for (const auto* table : {&kBadCommon, &kBadCompletion}) {
    for (const BadRow& row : *table) expect_refused(front.completion("," + std::string(row.fields)), row);
  }
}

TEST(OpenAiRequest, BadBodiesAreRefused) {
  std::string keys = R"({"messages":[{"role":"user","content":"a:b{\":"}],"tools":[{)";
  for (int i = 0; i <= kMaxObjectKeys; ++i) keys += "\"k" + std::to_string(i) + "\":1,";
  keys += R"("z":1}]})";
  const std::string deep = R"({"messages":)" + std::string(200, '[') + std::string(200, ']') + "}";
  TestFront front([](const Request&, ReplySink&) { ADD_FAILURE() << "the handler was called"; });
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"), std::string("\"\\"),
        std::string("{\"messages\":\"\xff\"}"), std::string("{\"temperature\":1e999}"), deep,
        std::string(100, '{'), keys}) {
    const HttpResponse reply = front.call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 80);
    EXPECT_TRUE(json_of(reply)["error"]["param"].is_null()) << reply.body;
  }
}

ParsedRequest parse(const std::string& fields, RequestKind kind = RequestKind::kChat) {
  const std::vector<std::string> models = {"tiny"};
  const RequestRules rules{.sampling = {.temperature = 0.7}, .models = models};
  const std::string first =
      kind == RequestKind::kChat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")";
  return parse_openai_request("{" + first + fields + "}", kind, rules);
}

TEST(OpenAiRequest, ReadsEveryField) {
  const ParsedRequest p = parse(
      R"(,"model":"tiny","temperature":0,"top_p":0.5,"top_k":40,"min_p":0.05,"seed":-3,"stop":["a","b"],"ignore_eos":true,
      "stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":20,"n":1,
      "max_tokens":5,"max_completion_tokens":16.0,"tools":[{"type":"function","function":{"name":"f"}}],
      "chat_template_kwargs":{"thinking":false},"presence_penalty":0,"logit_bias":{},"user":"u",
      "response_format":{"type":"text"},"tool_choice":"auto","modalities":["text"])");
  ASSERT_FALSE(p.error) << p.error->status.to_string();
  const OpenAiRequest& r = p.request;
  EXPECT_EQ(r.sampling.temperature, 0);
  EXPECT_EQ(r.sampling.top_p, 0.5);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.min_p, 0.05);
  EXPECT_EQ(r.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(r.sampling.top_logprobs, 20);
  EXPECT_EQ(r.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(r.stream && r.include_usage && r.add_generation_prompt && r.ignore_eos);
  EXPECT_EQ(r.max_tokens, 16);
  EXPECT_EQ(r.tools.size(), 1u);
  EXPECT_EQ(r.template_variables["thinking"], false);
  EXPECT_TRUE(r.ignored_fields.empty());
}

TEST(OpenAiRequest, NullAndMissingMeanTheDefault) {
  const ParsedRequest p = parse(
      R"(,"temperature":null,"max_tokens":null,"stop":null,"n":null,"seed":null,"logprobs":null,"tools":null,
      "top_logprobs":null,"stream_options":null,"response_format":null,"logit_bias":null,"model":null,"fancy":1})");
  EXPECT_TRUE(p.error.has_value());  // one brace too many
  const ParsedRequest q = parse(
      R"(,"temperature":null,"max_tokens":null,"stop":null,"n":null,"seed":null,"logprobs":null,"tools":null,
      "top_logprobs":null,"stream_options":null,"response_format":null,"logit_bias":null,"model":null,"fancy":1)");
  ASSERT_FALSE(q.error) << q.error->status.to_string();
  EXPECT_EQ(q.request.sampling.temperature, 0.7);
  EXPECT_EQ(q.request.sampling.top_logprobs, -1);
  EXPECT_EQ(q.request.max_tokens, 0);
  EXPECT_EQ(q.request.ignored_fields, std::vector<std::string>{"fancy"});
  EXPECT_EQ(parse("", RequestKind::kCompletion).request.max_tokens, 512);
  EXPECT_NE(parse("").request.sampling.seed, parse("").request.sampling.seed);
  const ParsedRequest none =
      parse(R"(,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")");
  EXPECT_TRUE(none.request.tools.is_null());
  EXPECT_TRUE(parse(R"(,"tools":[])").request.tools.is_null());
}

}  // namespace
}  // namespace isthmus
