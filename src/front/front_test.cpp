// SPDX-License-Identifier: Apache-2.0
// Routes, access, prompts and whole replies.
#include "front/front.h"

#include "front/access.h"
#include "front/front_test_util.h"

namespace isthmus {
namespace {

using Ids = std::vector<TokenId>;

std::string raw(TestFront& front, const std::string& request) {
  RawClient client(front.front().port());
  EXPECT_TRUE(client.send(request).ok());
  return client.read_reply();
}

TEST(Front, RoutesAndMethods) {
  struct Row {
    const char* method;
    const char* path;
    int status;
  };
  TestFront front(says({"Hello"}));
  for (const Row& row : std::vector<Row>{{"GET", "/health", 200},
                                         {"GET", "/health?verbose=1", 200},
                                         {"GET", "/stats", 200},
                                         {"GET", "/v1/models", 200},
                                         {"GET", "/v1/models/tiny", 200},
                                         {"GET", "/v1/models/alias/one", 200},
                                         {"GET", "/v1/models/alias%2Fone", 200},
                                         {"GET", "/v1/models/other", 404},
                                         {"GET", "/v1/models/", 404},
                                         {"GET", "/v1/identity", 200},
                                         {"GET", "/v1/projection", 200},
                                         {"GET", "/", 404},
                                         {"GET", "/healthy", 404},
                                         {"POST", "/v1/embeddings", 404},
                                         {"POST", "/health", 405},
                                         {"DELETE", "/v1/models", 405},
                                         {"GET", "/v1/chat/completions", 405},
                                         {"OPTIONS", "/v1/completions", 405}}) {
    const HttpResponse reply = front.call(row.method, row.path);
    EXPECT_EQ(reply.status, row.status) << row.method << " " << row.path;
    if (row.status >= 400) {
      EXPECT_TRUE(json_of(reply)["error"]["message"].is_string()) << row.path;
    }
    EXPECT_EQ(reply.headers.get("Allow").has_value(), row.status == 405);
  }
  EXPECT_EQ(status_of(raw(front, "GET /v1/models/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n")), 404);
  EXPECT_EQ(front.get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(front.get("/stats").body, R"({"active":3})");
  EXPECT_EQ(front.get("/v1/identity").body, R"({"digest":"d1"})");
  EXPECT_EQ(front.get("/v1/projection").body, "pack");
  const Json models = json_of(front.get("/v1/models"));
  ASSERT_EQ(models["data"].size(), 2u);
  EXPECT_EQ(models["data"][1]["id"], "alias/one");
  EXPECT_EQ(models["data"][0]["max_model_len"], kTestContext);
}

TEST(Front, ForeignHostAndOriginAreRefused) {
  TestFront front(says({"Hello"}));
  EXPECT_EQ(status_of(raw(front, "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n")), 403);
  EXPECT_EQ(status_of(raw(front, "GET /health HTTP/1.1\r\nHost: localhost:1\r\n\r\n")), 200);
  EXPECT_EQ(status_of(raw(front, "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n")), 400);
  EXPECT_EQ(front.chat("", {{"Origin", "https://evil.example"}}).status, 403);
  EXPECT_EQ(front.chat("", {{"Origin", "null"}}).status, 403);
  EXPECT_EQ(front.chat("", {{"Origin", "http://localhost:3000"}}).status, 200);
  FrontOptions options;
  options.allowed_hosts = {"mac.local"};
  TestFront open(says({"Hello"}), options);
  EXPECT_EQ(status_of(raw(open, "GET /health HTTP/1.1\r\nHost: MAC.local:8012\r\n\r\n")), 200);
}

TEST(Front, TokenIsAskedForOffLoopback) {
  HttpRequest request;
  request.path = "/v1/identity";
  const auto status = [&](const std::string& token) {
    const auto error = check_token(request, token);
    return error ? http_status_of(*error) : 200;
  };
  EXPECT_EQ(status("s3cret"), 401);
  EXPECT_EQ(status(""), 403);
  request.headers.add("Authorization", "Bearer s3cret");
  EXPECT_EQ(status("s3cret"), 200);
  EXPECT_EQ(status("s3cre"), 401);
  EXPECT_EQ(status("s3cret2"), 401);
  request.headers.add("Authorization", "Bearer other");
  EXPECT_EQ(status("s3cret"), 401);
  request.is_loopback = true;
  EXPECT_EQ(status("s3cret"), 200);
  EXPECT_EQ(status(""), 200);
}

TEST(Front, OversizedBodyIs413) {
  FrontOptions options;
  options.http.max_body_bytes = 1000;
  TestFront front(says({"Hello"}), options);
  const HttpResponse refused = front.chat(R"(,"user":")" + std::string(2000, 'x') + "\"");
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.headers.get("Content-Type"), "application/json");
  EXPECT_EQ(json_of(refused)["error"], Json({{"message", "body too large"},
                                             {"type", "invalid_request_error"},
                                             {"param", nullptr},
                                             {"code", "resource_exhausted"}}));
  EXPECT_EQ(front.chat().status, 200);
}

TEST(Front, WholeChatReply) {
  Request seen;
  TestFront front([&seen](const Request& rq, ReplySink& reply) {
    seen = rq;
    says({"Hello", " world"})(rq, reply);
  });
  const HttpResponse reply = front.chat(R"(,"model":"alias/one","seed":5)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.get("Content-Type"), "application/json");
  EXPECT_EQ(reply.headers.get("X-PD-Bridge"), short_verdict().header());
  EXPECT_FALSE(reply.headers.get("Warning").has_value());
  EXPECT_EQ(
      normalized(reply.body),
      R"({"id":"ID","object":"chat.completion","created":0,"model":"tiny","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"Hello world"},"logprobs":null,"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":19,"completion_tokens":2,"total_tokens":21,)"
      R"("prompt_tokens_details":{"cached_tokens":4}}})");
  // <bos>user:hi<end>assistant:
  ASSERT_EQ(seen.ids.size(), 19u);
  EXPECT_EQ(seen.ids.front(), end_token() - 1);
  EXPECT_EQ(seen.ids[1], 'u');
  EXPECT_EQ(seen.ids[8], end_token());
  EXPECT_EQ(seen.sampling.temperature, 0.7);
  EXPECT_EQ(seen.sampling.seed, 5u);
  EXPECT_EQ(seen.max_tokens, 0);
  EXPECT_EQ(seen.stop_tokens, Ids{end_token()});
  EXPECT_FALSE(seen.stream);
  EXPECT_EQ(json_of(reply)["id"], seen.id);
}

TEST(Front, WholeCompletionReply) {
  Request seen;
  TestFront front([&seen](const Request& rq, ReplySink& reply) {
    seen = rq;
    says({"Hello"}, FinishReason::kLength)(rq, reply);
  });
  EXPECT_EQ(normalized(front.completion(R"(,"max_tokens":1,"fancy\n":1)").body),
            R"({"id":"ID","object":"text_completion","created":0,"model":"tiny","choices":[{"index":0,)"
            R"("text":"Hello","logprobs":null,"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,)"
            R"("prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(seen.ids, (Ids{end_token() - 1, 'h', 'i'}));
  EXPECT_EQ(seen.max_tokens, 1);
  const HttpResponse warned = front.completion(R"(,"prompt":[72,256,"x"],"prompt":[72,256],"fa\ncy":1)");
  EXPECT_EQ(warned.status, 200);
  EXPECT_EQ(seen.ids, (Ids{72, 256}));
  EXPECT_EQ(warned.headers.get("Warning"), R"(299 isthmus "ignored fields: fa?cy")");
}

// Conversations as clients send them: content null, missing, empty, in parts.
TEST(Front, MessageFormsRenderAlike) {
  Request seen;
  TestFront front([&seen](const Request& rq, ReplySink& reply) {
    seen = rq;
    says({"Hello"})(rq, reply);
  });
  const auto ids_of = [&](const std::string& assistant) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant")" +
                             assistant + R"(},{"role":"user","content":[{"type":"text","text":"yo"}]}]})";
    seen.ids.clear();
    EXPECT_EQ(front.call("POST", "/v1/chat/completions", body).status, 200) << assistant;
    return seen.ids;
  };
  const Ids empty = ids_of(R"(,"content":"")");
  ASSERT_FALSE(empty.empty());
  EXPECT_EQ(ids_of(R"(,"content":null)"), empty);
  EXPECT_EQ(ids_of(""), empty);
  EXPECT_EQ(ids_of(R"(,"content":"x")").size(), empty.size() + 1);
  const std::string call =
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}])";
  EXPECT_FALSE(ids_of(R"(,"content":null,)" + call).empty());
  EXPECT_FALSE(ids_of("," + call).empty());
}

TEST(Front, ContinuesTheFinalMessage) {
  Request seen;
  TestFront front([&seen](const Request& rq, ReplySink& reply) {
    seen = rq;
    says({"Hello"})(rq, reply);
  });
  const std::string body =
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes, "}],)"
      R"("continue_final_message":true})";
  EXPECT_EQ(front.call("POST", "/v1/chat/completions", body).status, 200);
  EXPECT_EQ(test_tokenizer().decode(seen.ids, true), "user:hiassistant:yes,");
}

TEST(Front, ChatNeedsATemplate) {
  TestFront front(says({"Hello"}), FrontOptions(), false);
  const HttpResponse reply = front.chat();
  EXPECT_EQ(reply.status, 501);
  EXPECT_NE(json_of(reply)["error"]["message"].get<std::string>().find("no chat template"),
            std::string::npos);
  EXPECT_EQ(front.completion().status, 200);
}

TEST(Front, StartRefusesWhatCannotServe) {
  const Tokenizer tokenizer = test_tokenizer();
  ScriptedHandler handler(says({"Hello"}));
  FrontDeps deps(handler, tokenizer);
  deps.context_tokens = kTestContext;
  FrontOptions options;
  options.http.port = 0;
  EXPECT_EQ(Front::start(options, deps).status().code(), Code::kInvalidArgument);  // no model name
  options.model_names = {"tiny"};
  options.http.address = "nowhere at all";
  EXPECT_EQ(Front::start(options, deps).status().code(), Code::kInvalidArgument);
  options.http.address = "127.0.0.1";
  EXPECT_TRUE(Front::start(options, deps).ok());
  deps.context_tokens = 1;
  EXPECT_EQ(Front::start(options, deps).status().code(), Code::kInvalidArgument);
}

TEST(Front, PromptTooLongNamesBothNumbers) {
  TestFront front(says({"Hello"}));
  const auto prompt = [](int64_t n) { return R"(,"prompt":")" + std::string(n - 1, 'a') + "\""; };
  EXPECT_EQ(front.completion(prompt(kTestContext - 1)).status, 200);
  const HttpResponse reply = front.completion(prompt(kTestContext));
  EXPECT_EQ(reply.status, 400);
  const Json error = json_of(reply)["error"];
  EXPECT_EQ(error["message"], "prompt: expected fewer tokens than the context of 200, got 200");
  EXPECT_EQ(error["code"], "context_length_exceeded");

  // The longest token has 6 bytes: this is refused before it is cut into tokens.
  const HttpResponse huge = front.completion(prompt(6 * kTestContext + 1));
  EXPECT_EQ(huge.status, 400);
  EXPECT_EQ(json_of(huge)["error"]["message"],
            "prompt: expected fewer tokens than the context of 200, got at least 200");
  EXPECT_EQ(json_of(huge)["error"]["code"], "context_length_exceeded");
  const HttpResponse chat =
      front.chat(R"(,"messages":[{"role":"user","content":")" + std::string(3000, 'a') + "\"}]");
  EXPECT_EQ(chat.status, 400);
  EXPECT_EQ(json_of(chat)["error"]["param"], "messages");
}

TEST(Front, BridgeOnlyRepliesWithTheVerdict) {
  TestFront front([](const Request& rq, ReplySink& reply) {
    EXPECT_TRUE(rq.bridge_only);
    EXPECT_FALSE(rq.stream);
    reply.begin(short_verdict());
    reply.finish({});
  });
  const HttpResponse reply = front.chat(R"(,"stream":true)", {{"X-PD-Bridge-Only", "1"}});
  EXPECT_EQ(reply.status, 200);
  const std::string verdict = short_verdict().header();
  EXPECT_EQ(reply.body, R"({"object":"pd.bridge","bridge":)" + verdict + "}");
  EXPECT_EQ(reply.headers.get("X-PD-Bridge"), verdict);
}

TEST(Front, DebugAddsWhatWasComputed) {
  TestFront front(says({"Hello"}));
  const Json usage = json_of(front.chat(R"(,"seed":7)", {{"X-Isthmus-Debug", "1"}}))["usage"];
  EXPECT_EQ(usage["isthmus"]["first_logits_xxh3"], "0000000000000abc");
  EXPECT_EQ(usage["isthmus"]["computed_tokens"], 5);
  EXPECT_EQ(usage["isthmus"]["seed"], 7);
}

TEST(Front, LogprobsInBothForms) {
  TestFront front(says({"\xF0\x9F", "\x98\x80", "X"}));
  const Json chat =
      json_of(front.chat(R"(,"logprobs":true,"top_logprobs":2)"))["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(chat.size(), 3u);
  EXPECT_EQ(chat[0]["token"], R"(bytes:\xf0\x9f)");
  EXPECT_EQ(chat[0]["bytes"], Json::array({0xF0, 0x9F}));
  EXPECT_EQ(chat[2]["token"], "X");
  EXPECT_EQ(chat[2]["logprob"], -0.5);
  EXPECT_EQ(chat[2]["top_logprobs"][1]["token"], "!");
  const Json text = json_of(front.completion(R"(,"logprobs":2)"))["choices"][0]["logprobs"];
  EXPECT_EQ(text["text_offset"], Json::array({0, 0, 1}));
  EXPECT_EQ(text["token_logprobs"], Json::array({-0.5, -0.5, -0.5}));
  EXPECT_EQ(text["top_logprobs"][2]["!"], -2.0);
}

TEST(Front, HandlerErrorsBecomeStatuses) {
  struct Row {
    Code code;
    int status;
  };
  for (const Row& row : std::vector<Row>{{Code::kInvalidArgument, 400},
                                         {Code::kResourceExhausted, 429},
                                         {Code::kUnavailable, 503},
                                         {Code::kDeadlineExceeded, 504},
                                         {Code::kCancelled, 499},
                                         {Code::kInternal, 500}}) {
    TestFront front([&row](const Request&, ReplySink& reply) {
      reply.begin(short_verdict());
      reply.fail(Status(row.code, "engine: no"));
    });
    for (const char* stream : {"", R"(,"stream":true)"}) {
      const HttpResponse reply = front.chat(stream);
      EXPECT_EQ(reply.status, row.status);
      EXPECT_EQ(json_of(reply)["error"]["message"], "engine: no");
      EXPECT_EQ(json_of(reply)["error"]["code"], code_name(row.code));
      EXPECT_EQ(reply.headers.get("X-PD-Bridge"), short_verdict().header());
    }
  }
}

TEST(Front, AnswersOthersWhileRequestsBlock) {
  std::atomic<int> inside{0};
  Event both;
  Event release;
  FrontOptions options;
  options.max_requests = 2;
  TestFront front(
      [&](const Request& rq, ReplySink& reply) {
        if (++inside == 2) both.set();
        EXPECT_TRUE(release.wait());
        says({"Hello"})(rq, reply);
      },
      options);
  std::thread one([&] { EXPECT_EQ(front.chat().status, 200); });
  std::thread two([&] { EXPECT_EQ(front.chat().status, 200); });
  ASSERT_TRUE(both.wait());
  EXPECT_EQ(front.get("/health").status, 200);
  EXPECT_EQ(front.get("/stats").status, 200);
  const HttpResponse third = front.chat();
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(json_of(third)["error"]["code"], "queue_full");
  EXPECT_TRUE(third.headers.get("Retry-After").has_value());
  release.set();
  one.join();
  two.join();
  EXPECT_EQ(front.chat().status, 200);
}

}  // namespace
}  // namespace isthmus
