// SPDX-License-Identifier: Apache-2.0
#include "front/openai_request.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/hash.h"
#include "front/json_body.h"
#include "front/openai_messages.h"
#include "front/request_fields.h"

namespace isthmus {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();  // more than any context
constexpr size_t kMaxStops = 4;
constexpr size_t kMaxStopBytes = 1024;  // text that could become a stop string is held back: keep that short
constexpr int kMaxChatLogprobs = 20;
constexpr int kMaxCompletionLogprobs = 5;

// Known fields without an effect here: identities, billing and cache hints.
constexpr std::array<const char*, 8> kHints = {"user",
                                               "metadata",
                                               "store",
                                               "service_tier",
                                               "parallel_tool_calls",
                                               "safety_identifier",
                                               "prompt_cache_key",
                                               "prompt_cache_retention"};

// Known fields that would change the answer and that we cannot honour.
constexpr std::array<const char*, 12> kNotSupported = {
    "functions",          "function_call", "audio",        "prediction",
    "web_search_options", "guided_json",   "guided_regex", "guided_choice",
    "guided_grammar",     "adapter",       "session_id",   "structured_outputs"};

// Penalties and truncations that we do not have: only the value that does nothing is accepted.
struct Neutral {
  const char* name;
  double value;
  double low;
  double high;
};
constexpr std::array<Neutral, 4> kNeutral = {{{"presence_penalty", 0, -2, 2},
                                              {"frequency_penalty", 0, -2, 2},
                                              {"repetition_penalty", 1, 0, 10},
                                              {"xtc_probability", 0, 0, 1}}};

uint64_t random_seed() {
  std::array<std::byte, 8> bytes;
  random_bytes(bytes);
  uint64_t seed = 0;
  for (const std::byte b : bytes) seed = seed << 8 | static_cast<uint64_t>(b);
  return seed;
}

void read_model(RequestFields& f, const RequestRules& rules) {
  const auto model = f.string("model");
  if (!model || f.failed()) return;
  if (std::find(rules.models.begin(), rules.models.end(), *model) != rules.models.end()) return;
  f.fail("model", "expected a model of GET /v1/models, got " + shown(Json(*model)), Code::kNotFound);
}

void read_sampling(RequestFields& f, SamplingParams& s) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  s.temperature = f.number("temperature", 0, 2).value_or(s.temperature);
  if (const auto top_p = f.number("top_p", 0, 1)) {
    if (*top_p == 0) f.fail("top_p", "expected a number above 0 and at most 1, got 0");
    s.top_p = *top_p;
  }
  s.top_k = static_cast<int>(f.integer("top_k", 0, kMaxTokens).value_or(s.top_k));
  s.min_p = f.number("min_p", 0, 1).value_or(s.min_p);
  const auto seed = f.integer("seed", -kAny - 1, kAny);
  s.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();
}

void read_stop(RequestFields& f, std::vector<std::string>& out) {
  const Json* stop = f.value("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMaxStops) {
    return f.fail("stop", "expected at most 4 strings, got " + std::to_string(list.size()));
  }
  for (const Json& s : list) {
    if (!s.is_string()) return f.expected("stop", "a string or an array of strings", s);
    const auto& text = s.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return f.fail("stop", "expected strings of 1 to 1024 bytes, got one of " + std::to_string(text.size()));
    }
    out.push_back(text);
  }
}

void read_stream(RequestFields& f, OpenAiRequest& out) {
  out.stream = f.boolean("stream").value_or(false);
  const Json* options = f.value("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return f.expected("stream_options", "an object", *options);
  RequestFields inner(*options, "stream_options.");
  out.include_usage = inner.boolean("include_usage").value_or(false);
  f.take_error(inner);
}

void refuse_unsupported(RequestFields& f) {
  if (const auto n = f.integer("n", 1, 128); n.value_or(1) != 1) {
    f.fail("n", "expected 1 (one choice a request), got " + std::to_string(*n));
  }
  for (const Neutral& field : kNeutral) {
    const auto v = f.number(field.name, field.low, field.high);
    if (v.value_or(field.value) != field.value) f.unsupported(field.name, "not supported by this server");
  }
  if (const Json* bias = f.value("logit_bias")) {
    if (!bias->is_object())
      f.expected("logit_bias", "an object", *bias);
    else if (!bias->empty())
      f.unsupported("logit_bias", "not supported by this server");
  }
  for (const char* name : kNotSupported) {
    if (f.value(name) != nullptr) f.unsupported(name, "not supported by this server");
  }
  for (const char* name : kHints) f.value(name);
}

void refuse_response_format(RequestFields& f) {
  const Json* format = f.value("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return f.expected("response_format", "an object", *format);
  RequestFields inner(*format, "response_format.");
  const auto type = inner.string("type");
  if (!inner.failed() && !type) inner.fail("type", "expected a string, got null");
  f.take_error(inner);
  if (!f.failed() && *type != "text") {
    f.unsupported("response_format", "only {\"type\":\"text\"} is supported, got type " + shown(Json(*type)));
  }
}

void read_tools(RequestFields& f, OpenAiRequest& out) {
  const Json* tools = f.value("tools");
  check_tools(tools, f);
  bool offer = true;
  if (const Json* choice = f.value("tool_choice")) {
    if (*choice == "none")
      offer = false;
    else if (*choice == "required" || choice->is_object()) {
      f.unsupported("tool_choice", "only \"auto\" and \"none\" are supported");
    } else if (*choice != "auto") {
      f.expected("tool_choice", "\"auto\" or \"none\"", *choice);
    }
  }
  if (tools != nullptr && !tools->empty() && offer) out.tools = *tools;
}

void read_chat_logprobs(RequestFields& f, SamplingParams& s) {
  const bool wanted = f.boolean("logprobs").value_or(false);
  const auto top = f.integer("top_logprobs", 0, kMaxChatLogprobs);
  if (top && !wanted) f.fail("top_logprobs", "expected only together with \"logprobs\": true");
  s.top_logprobs = wanted ? static_cast<int>(top.value_or(0)) : -1;
}

void read_chat(RequestFields& f, OpenAiRequest& out) {
  const Json* messages = f.value("messages");
  check_messages(messages, f);
  if (messages != nullptr) out.messages = *messages;
  read_tools(f, out);
  if (const Json* variables = f.value("chat_template_kwargs")) {
    if (!variables->is_object()) f.expected("chat_template_kwargs", "an object", *variables);
    out.template_variables = *variables;
  }
  out.continue_final_message = f.boolean("continue_final_message").value_or(false);
  const auto add_prompt = f.boolean("add_generation_prompt");
  out.add_generation_prompt = add_prompt.value_or(!out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt) {
    f.fail("continue_final_message", "expected false where add_generation_prompt is true");
  }
  if (const Json* modalities = f.value("modalities"); modalities && *modalities != Json::array({"text"})) {
    f.unsupported("modalities", "only [\"text\"] is supported");
  }
  read_chat_logprobs(f, out.sampling);
  out.max_tokens = f.integer("max_tokens", 1, kMaxTokens).value_or(0);
  out.max_tokens = f.integer("max_completion_tokens", 1, kMaxTokens).value_or(out.max_tokens);
}

void read_prompt(RequestFields& f, OpenAiRequest& out) {
  const Json* prompt = f.value("prompt");
  if (prompt != nullptr && prompt->is_string()) {
    out.prompt = prompt->get_ref<const std::string&>();
    if (out.prompt.empty()) f.fail("prompt", "expected text, got an empty string");
    return;
  }
  if (prompt == nullptr || !prompt->is_array() || prompt->empty()) {
    return f.expected("prompt", "a string or a non-empty array of token ids", prompt ? *prompt : Json());
  }
  for (const Json& id : *prompt) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max()) {
      return f.expected("prompt", "a string or an array of token ids", id);
    }
    out.prompt_ids.push_back(id.get<TokenId>());
  }
}

void read_completion(RequestFields& f, OpenAiRequest& out, const RequestRules& rules) {
  read_prompt(f, out);
  const auto logprobs = f.integer("logprobs", 0, kMaxCompletionLogprobs);
  out.sampling.top_logprobs = static_cast<int>(logprobs.value_or(-1));
  out.max_tokens = f.integer("max_tokens", 1, kMaxTokens).value_or(rules.completion_max_tokens);
  out.max_tokens = f.integer("max_completion_tokens", 1, kMaxTokens).value_or(out.max_tokens);
  if (f.boolean("echo").value_or(false)) f.unsupported("echo", "not supported by this server");
  if (!f.string("suffix").value_or("").empty()) f.unsupported("suffix", "not supported by this server");
  if (const auto best_of = f.integer("best_of", 1, 128); best_of.value_or(1) != 1) {
    f.unsupported("best_of", "only 1 is supported");
  }
}

}  // namespace

ParsedRequest parse_openai_request(std::string_view body, RequestKind kind, const RequestRules& rules) {
  ParsedRequest out;
  const Result<Json> parsed = parse_json_body(body);
  if (!parsed.ok()) {
    out.error = ApiError{parsed.status(), {}, {}, 0};
    return out;
  }
  RequestFields fields(*parsed);
  out.request.kind = kind;
  out.request.sampling = rules.sampling;
  read_model(fields, rules);
  if (kind == RequestKind::kChat)
    read_chat(fields, out.request);
  else
    read_completion(fields, out.request, rules);
  read_sampling(fields, out.request.sampling);
  read_stop(fields, out.request.stop);
  out.request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  read_stream(fields, out.request);
  refuse_response_format(fields);
  refuse_unsupported(fields);
  out.error = fields.error();
  if (out.error && out.error->status.code() == Code::kNotFound) out.error->code = "model_not_found";
  out.request.ignored_fields = fields.names_not_read();
  return out;
}

}  // namespace isthmus
