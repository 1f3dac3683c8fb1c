// Tests names, detection and ids of formats.
#include <gtest/gtest.h>

#include "server/output/reasoning_format.h"
#include "server/output/tool_format.h"

namespace forerun::server {
namespace {

TEST(ToolFormat, NamesGoBothWays) {
  for (const char* name : {"none", "hermes", "llama_json", "llama_function", "mistral",
                           "qwen_coder", "deepseek", "json_list"}) {
    const auto format = tool_format_of_name(name);
    ASSERT_TRUE(format.ok());
    EXPECT_STREQ(tool_format_name(*format), name);
  }
  EXPECT_EQ(tool_format_of_name("gpt").status().message(),
            "tool format: found 'gpt'; accepted: none, hermes, llama_json, llama_function, "
            "mistral, qwen_coder, deepseek, json_list");
  for (const char* name : {"none", "think", "think_box", "seed"}) {
    EXPECT_STREQ(reasoning_format_name(*reasoning_format_of_name(name)), name);
  }
  EXPECT_FALSE(reasoning_format_of_name("x").ok());
}

TEST(ToolFormat, IdsHaveTheLengthTemplatesWant) {
  EXPECT_EQ(make_tool_call_id(ToolFormat::kMistral, 7).size(), 9u);
  EXPECT_EQ(make_tool_call_id(ToolFormat::kHermes, 7).size(), 29u);
  EXPECT_EQ(make_tool_call_id(ToolFormat::kHermes, 7), make_tool_call_id(ToolFormat::kHermes, 7));
  EXPECT_NE(make_tool_call_id(ToolFormat::kHermes, 7), make_tool_call_id(ToolFormat::kHermes, 8));
}

TEST(ToolFormat, SpecialTokensAreShownWhereTagsAreSpecial) {
  using enum ToolFormat;
  EXPECT_TRUE(tool_format_needs_special_tokens(kMistral));
  EXPECT_TRUE(tool_format_needs_special_tokens(kLlamaJson));
  EXPECT_FALSE(tool_format_needs_special_tokens(kHermes));
  EXPECT_FALSE(tool_format_needs_special_tokens(kNone));
  EXPECT_TRUE(reasoning_format_needs_special_tokens(ReasoningFormat::kThinkBox));
  EXPECT_FALSE(reasoning_format_needs_special_tokens(ReasoningFormat::kThink));
  EXPECT_EQ(tool_format_tags(kMistral)[0], "[TOOL_CALLS]");
  EXPECT_TRUE(tool_format_tags(kNone).empty());
}

TEST(ToolFormat, IsSeenInATemplate) {
  using enum ToolFormat;
  EXPECT_EQ(detect_tool_format("<tool_call>{{ call | tojson }}</tool_call>"), kHermes);
  EXPECT_EQ(detect_tool_format("<tool_call><function={{ name }}><parameter="), kQwenCoder);
  EXPECT_EQ(detect_tool_format("<tool_call>{{ name }}<arg_key>"), kNone);
  EXPECT_EQ(detect_tool_format("<function={{ name }}>"), kLlamaFunction);
  EXPECT_EQ(detect_tool_format("{{ '<｜tool▁call▁begin｜>' }}"), kDeepSeek);
  EXPECT_EQ(detect_tool_format("{{ tools | tojson }}"), kNone);
  EXPECT_EQ(detect_tool_format("<tool_call><invoke name="), kNone);
  EXPECT_EQ(detect_tool_format("<TOOLCALL>[{{ calls }}]"), kJsonList);
  EXPECT_EQ(detect_tool_format(R"({"name": "{{ n }}", "parameters": {{ p }}})"), kLlamaJson);
  EXPECT_EQ(detect_tool_format(R"({"name": "{{ n }}", "description": "d", "parameters": 1})"),
            kNone);
}

TEST(ReasoningFormat, APromptMayOpenTheSection) {
  using enum ReasoningFormat;
  EXPECT_TRUE(prompt_opens_reasoning(kThink, "<|Assistant|><think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning(kThink, "<|Assistant|><think>\n\n</think>\n\n"));
  EXPECT_FALSE(prompt_opens_reasoning(kThink, "say <think>\n<|im_start|>assistant\n"));
  EXPECT_FALSE(prompt_opens_reasoning(kNone, "<think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning(kThink, ""));
  EXPECT_EQ(detect_reasoning_format("{{ x.split('</think>')[-1] }}"), kThink);
  EXPECT_EQ(detect_reasoning_format("[THINK]{{ x }}[/THINK]"), kThinkBox);
  EXPECT_EQ(detect_reasoning_format("{{ x }}"), kNone);
}

}  // namespace
}  // namespace forerun::server
