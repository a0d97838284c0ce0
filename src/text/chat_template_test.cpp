// SPDX-License-Identifier: Apache-2.0
// The wrapper: which forms a template takes, how messages are adapted to it, and what is refused.
#include "text/chat_template.h"
#include "base/test_data.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace isthmus {
namespace {

std::string template_file(const std::string& name) {
  std::ifstream in(test_data("templates/" + name + ".jinja"), std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

ChatTemplateOptions options() {
  ChatTemplateOptions out;
  out.bos_token = "<s>";
  out.eos_token = "</s>";
  return out;
}

ChatTemplate parsed(const std::string& source) {
  Result<ChatTemplate> chat = ChatTemplate::parse(source, options());
  EXPECT_TRUE(chat.ok()) << chat.status().to_string();
  return chat.take();
}

Json messages(const char* text) {
  return Json::parse(text);
}

std::string rendered(const ChatTemplate& chat, const Json& talk) {
  ChatInput input;
  input.messages = talk;
  Result<std::string> prompt = chat.render(input);
  return prompt.ok() ? *prompt : prompt.status().to_string();
}

TEST(ChatTemplate, RendersSmolLm2) {
  const ChatTemplate chat = parsed(template_file("smollm2"));
  ChatInput input;
  input.messages = messages(R"([{"role":"user","content":"hi"}])");
  const std::string prompt =
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
      "<|im_start|>user\nhi<|im_end|>\n";
  EXPECT_EQ(*chat.render(input), prompt + "<|im_start|>assistant\n");
  input.add_generation_prompt = false;
  EXPECT_EQ(*chat.render(input), prompt);
}

TEST(ChatTemplate, AsksTheTemplateWhatItTakes) {
  struct Row {
    const char* name;
    bool user_parts, null_content, missing_content, text_arguments;
  };
  const Row rows[] = {
      {"smollm2", false, false, false, false},         {"turns_parts", true, true, true, false},
      {"header_tools", false, true, true, false},      {"hermes_calls", false, true, true, false},
      {"think_blocks", false, true, false, true},      {"schema_macros", true, true, true, false},
      {"vllm_minicpmv45", false, false, false, false},
  };
  for (const Row& row : rows) {
    const MessageForms forms = parsed(template_file(row.name)).forms();
    EXPECT_EQ(forms.takes_parts.contains("user"), row.user_parts) << row.name;
    EXPECT_EQ(forms.takes_null_content, row.null_content) << row.name;
    EXPECT_EQ(forms.takes_missing_content, row.missing_content) << row.name;
    EXPECT_EQ(forms.wants_text_arguments, row.text_arguments) << row.name;
    EXPECT_TRUE(forms.needs_parts.empty()) << row.name;
  }
}

// The four ways in which clients say that an assistant only called a tool.
TEST(ChatTemplate, ToolCallWithoutContentInEveryForm) {
  const char* const forms[] = {R"("content":null,)", R"("content":"",)", R"("content":[],)", ""};
  for (const char* name :
       {"smollm2", "header_tools", "inst_tools", "hermes_calls", "vllm_minicpmv45", "vllm_chatml"}) {
    const ChatTemplate chat = parsed(template_file(name));
    std::string first;
    for (const char* form : forms) {
      const std::string talk = std::string(R"([{"role":"user","content":"w?"},{"role":"assistant",)") + form +
                               R"("tool_calls":[{"id":"abc123def","type":"function","function":)"
                               R"({"name":"f","arguments":"{\"a\": 1}"}}]},)"
                               R"({"role":"tool","tool_call_id":"abc123def","content":"t"},)"
                               R"({"role":"assistant","content":"so?"}])";
      const std::string prompt = rendered(chat, messages(talk.c_str()));
      if (first.empty()) first = prompt;
      EXPECT_EQ(prompt, first) << name << " with " << form;
      EXPECT_EQ(prompt.find("None"), std::string::npos) << name;
      EXPECT_NE(prompt.find("so?"), std::string::npos) << name << ": " << prompt;
    }
  }
}

TEST(ChatTemplate, ArgumentsAsTextOrObjectGiveTheSamePrompt) {
  const char* const talk = R"([{"role":"user","content":"w?"},{"role":"assistant","content":"","tool_calls":[
      {"id":"abc123def","type":"function","function":{"name":"f","arguments":ARGS}}]}])";
  for (const char* name : {"hermes_calls", "inst_tools", "vllm_minicpmv45", "think_blocks"}) {
    const ChatTemplate chat = parsed(template_file(name));
    std::string prompts[2];
    const char* const arguments[] = {R"({"b":1,"a":"ü"})", R"("{\"b\":1,\"a\":\"ü\"}")"};
    for (size_t i = 0; i < 2; ++i) {
      std::string text = talk;
      text.replace(text.find("ARGS"), 4, arguments[i]);
      prompts[i] = rendered(chat, messages(text.c_str()));
    }
    EXPECT_EQ(prompts[0], prompts[1]) << name;
    EXPECT_NE(prompts[0].find("ü"), std::string::npos) << prompts[0];
  }
}

TEST(ChatTemplate, PartsAreKeptOrJoined) {
  const Json talk =
      messages(R"([{"role":"user","content":[{"type":"text","text":"one "},{"type":"text","text":"two"}]}])");
  EXPECT_NE(rendered(parsed(template_file("smollm2")), talk).find("user\none \ntwo<|im_end|>"),
            std::string::npos);
  EXPECT_NE(rendered(parsed(template_file("turns_parts")), talk).find("user\nonetwo<end_of_turn>"),
            std::string::npos);
  const ChatTemplate only_parts =
      parsed("{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}");
  EXPECT_TRUE(only_parts.forms().needs_parts.contains("user"));
  EXPECT_EQ(rendered(only_parts, messages(R"([{"role":"user","content":"hi"}])")), "hi;");
}

TEST(ChatTemplate, MessageWithNothingIsEmpty) {
  const ChatTemplate chat = parsed(template_file("smollm2"));
  for (const char* assistant : {R"({"role":"assistant"})", R"({"role":"assistant","content":null})",
                                R"({"role":"assistant","content":null,"tool_calls":[]})",
                                R"({"role":"assistant","content":"","tool_calls":null})"}) {
    const std::string talk =
        std::string(R"([{"role":"user","content":"a"},)") + assistant + R"(,{"role":"user","content":"b"}])";
    EXPECT_NE(rendered(chat, messages(talk.c_str())).find("<|im_start|>assistant\n<|im_end|>\n"),
              std::string::npos)
        << assistant;
  }
}

TEST(ChatTemplate, RefusesWhatItCannotAdapt) {
  const ChatTemplate chat = parsed(template_file("smollm2"));
  const std::pair<const char*, const char*> rows[] = {
      {R"({"role":"user"})", "messages: expected a list"},
      {R"(["hi"])", "messages[0]: expected an object"},
      {R"([{"content":"hi"}])", "messages[0].role"},
      {R"([{"role":"user","content":5}])", "messages[0].content: expected a string"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
       "messages[0].content[0]"},
      {R"([{"role":"user","content":[7]}])", "messages[0].content[0]: expected an object"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls: expected a list"},
  };
  for (const auto& [talk, expected] : rows) {
    EXPECT_NE(rendered(chat, messages(talk)).find(expected), std::string::npos)
        << rendered(chat, messages(talk));
  }
  ChatInput input;
  input.messages = messages(R"([{"role":"user","content":"hi"}])");
  input.extra = Json::object({{"messages", 1}});
  EXPECT_EQ(chat.render(input).status().message(), "chat_template_kwargs.messages: not a free name");
  input.extra = Json::array();
  EXPECT_EQ(chat.render(input).status().code(), Code::kInvalidArgument);
  input.extra = Json::object();
  input.tools = "x";
  EXPECT_EQ(chat.render(input).status().message(), "tools: expected a list");
}

TEST(ChatTemplate, RaisedMessageReachesTheCaller) {
  const ChatTemplate chat =
      parsed("{{ bos_token }}\n\n{{ raise_exception('only ' ~ messages|length ~ ' turn') }}");
  ChatInput input;
  input.messages = messages(R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(chat.render(input).status().to_string(), "invalid_argument: chat template: line 3: only 1 turn");
}

TEST(ChatTemplate, ExtraVariablesReachTheTemplate) {
  ChatInput input;
  input.messages = messages(R"([{"role":"user","content":"hi"}])");
  input.extra = Json::object({{"enable_thinking", false}});
  EXPECT_EQ(
      *parsed("{{ enable_thinking }} {{ tools is none }} {{ documents }} {{ eos_token }}").render(input),
      "False True None </s>");
  EXPECT_EQ(*ChatTemplate::parse("{{ bos_token is defined }}")->render(input), "False");
}

}  // namespace
}  // namespace isthmus
