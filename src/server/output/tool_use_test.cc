#include "server/output/tool_use.h"

#include <gtest/gtest.h>

#include <utility>

namespace forerun::server {
namespace {

const char* const kTwoTools =
    R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}},"strict":true}},)"
    R"({"type":"function","name":"g"}])";

std::string error_of(const std::string& tools, const std::string& choice = "") {
  return read_tool_use(tools, choice, std::nullopt).status().message();
}

TEST(ToolUse, NothingOffered) {
  for (const char* tools : {"", "null", "[]"}) {
    const auto use = read_tool_use(tools, "", std::nullopt);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(use->choice, ToolUse::Choice::kNone);
    EXPECT_EQ(use->tools_json, "");
    EXPECT_TRUE(read_tool_use(tools, "\"auto\"", std::nullopt).ok());
  }
}

TEST(ToolUse, BothShapesBecomeOne) {
  const auto use = read_tool_use(kTwoTools, "", false);
  ASSERT_TRUE(use.ok()) << use.status().message();
  EXPECT_EQ(use->choice, ToolUse::Choice::kAuto);
  EXPECT_FALSE(use->parallel);
  ASSERT_EQ(use->callable.size(), 2u);
  EXPECT_EQ(use->callable[0].parameters_json, R"({"type":"object","properties":{}})");
  EXPECT_TRUE(use->callable[0].strict);
  EXPECT_EQ(use->callable[1].name, "g");
  EXPECT_EQ(use->callable[0].parameters_path, "tools[0].function.parameters");
  EXPECT_EQ(use->callable[1].parameters_path, "tools[1].parameters");
  EXPECT_EQ(
      use->tools_json,
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}},)"
      R"({"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}])");
}

TEST(ToolUse, Choices) {
  const auto none = read_tool_use(kTwoTools, "\"none\"", std::nullopt);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->callable.empty());
  EXPECT_EQ(none->tools_json, "");
  EXPECT_EQ(read_tool_use(kTwoTools, "\"required\"", std::nullopt)->choice,
            ToolUse::Choice::kRequired);
  for (const char* choice :
       {R"({"type":"function","function":{"name":"g"}})", R"({"type":"function","name":"g"})"}) {
    const auto named = read_tool_use(kTwoTools, choice, std::nullopt);
    ASSERT_TRUE(named.ok()) << named.status().message();
    EXPECT_EQ(named->choice, ToolUse::Choice::kNamed);
    ASSERT_EQ(named->callable.size(), 1u);
    EXPECT_EQ(named->callable[0].name, "g");
    // The prompt is that of the other choices, and so is its KV.
    EXPECT_NE(named->tools_json.find("\"f\""), std::string::npos);
  }
  // A single call where OpenAI specifies one; calls without an end of their own are not repeated
  // unless asked for.
  const char* const by_name = R"({"type":"function","name":"g"})";
  EXPECT_FALSE(read_tool_use(kTwoTools, by_name, std::nullopt)->parallel);
  EXPECT_FALSE(read_tool_use(kTwoTools, by_name, true)->parallel);
  EXPECT_FALSE(read_tool_use(kTwoTools, "\"required\"", std::nullopt)->parallel);
  EXPECT_FALSE(read_tool_use(kTwoTools, "\"required\"", false)->parallel);
  EXPECT_TRUE(read_tool_use(kTwoTools, "\"required\"", true)->parallel);
  EXPECT_TRUE(read_tool_use(kTwoTools, "\"auto\"", std::nullopt)->parallel);
  const auto allowed = read_tool_use(
      kTwoTools,
      R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]})",
      std::nullopt);
  ASSERT_TRUE(allowed.ok()) << allowed.status().message();
  EXPECT_EQ(allowed->choice, ToolUse::Choice::kRequired);
  ASSERT_EQ(allowed->callable.size(), 1u);
  EXPECT_EQ(allowed->callable[0].name, "f");
}

TEST(ToolUse, AllowedToolsAreFewAndMayRepeat) {
  const auto choice = [](int count, const char* item) {
    std::string text = R"({"type":"allowed_tools","mode":"auto","tools":[)";
    for (int idx = 0; idx < count; ++idx) text += (idx == 0 ? "" : ",") + std::string(item);
    return text + "]}";
  };
  const auto twice = read_tool_use(kTwoTools, choice(2, R"({"name":"f"})"), std::nullopt);
  ASSERT_TRUE(twice.ok()) << twice.status().message();
  EXPECT_EQ(twice->callable.size(), 1u);
  EXPECT_EQ(error_of(kTwoTools, choice(129, R"({"name":"f"})")),
            "tool_choice.tools: found a list of 129; accepted: a list of 1 to 128 tools");
  EXPECT_EQ(error_of(kTwoTools, choice(1, "0")),
            "tool_choice.tools[0]: found 0; accepted: an object");
}

TEST(ToolUse, NamesTheWrongMember) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "tools: found an object; accepted: a list of at most 128"},
      {"[1]", "tools[0]: found 1; accepted: an object"},
      {R"([{"type":"web_search"}])", "tools[0].type: found \"web_search\"; accepted: \"function\""},
      {R"([{"type":"function"}])", "tools[0].function: found nothing; accepted: an object"},
      {R"([{"type":"function","function":{}}])",
       "tools[0].function.name: found nothing; accepted: a string"},
      {R"([{"type":"function","function":{"name":"a b"}}])",
       "tools[0].function.name: found \"a b\"; accepted: 1 to 64 letters, digits, '_', '-' and "
       "'.'"},
      {R"([{"type":"function","name":"f","parameters":[]}])",
       "tools[0].parameters: found a list of 0; accepted: a JSON schema, an object"},
      {R"([{"type":"function","name":"f"},{"type":"function","name":"f"}])",
       "tools[1]: found a second tool \"f\"; accepted: each name once"},
  };
  for (const auto& [tools, error] : cases) EXPECT_EQ(error_of(tools), error);
  EXPECT_EQ(read_tool_use(R"([{"type":"web_search"}])", "", std::nullopt).status().code(),
            StatusCode::kUnsupported);
  EXPECT_EQ(error_of(kTwoTools, "\"any\""),
            "tool_choice: found \"any\"; accepted: \"none\", \"auto\", \"required\" or {\"type\": "
            "\"function\", \"function\": {\"name\": ...}}");
  EXPECT_EQ(error_of(kTwoTools, R"({"type":"function","function":{"name":"h"}})"),
            "tool_choice.function.name: found \"h\"; accepted: the name of one of the tools");
  EXPECT_EQ(
      error_of("", "\"required\""),
      "tool_choice: found \"required\"; accepted: \"none\" or \"auto\" where there are no tools");
}

}  // namespace
}  // namespace forerun::server
