#include "server/output/normalize_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace forerun::server {
namespace {

std::string normalized(const std::string& messages, const TemplateFacts& facts = {}) {
  const auto result = normalize_messages(messages, facts);
  return result.ok() ? *result : result.status().message();
}

const char* const kBroken =
    "messages: found JSON that is broken or nested deeper than 128; accepted: a list";

// Returns a user's message followed by the given one.
std::string after_user(const std::string& message, const TemplateFacts& facts = {}) {
  const std::string user = R"({"role":"user","content":"u"})";
  std::string out = normalized("[" + user + "," + message + "]", facts);
  if (out.starts_with("[" + user + ","))
    out = out.substr(user.size() + 2, out.size() - user.size() - 3);
  return out;
}

TEST(NormalizeMessages, PartsBecomeText) {
  const std::string parts =
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(normalized(parts), R"([{"role":"user","content":"a\nb"}])");
  TemplateFacts facts;
  facts.wants_content_parts = true;
  EXPECT_EQ(normalized(parts, facts), parts);
  EXPECT_EQ(normalized(R"([{"role":"user","content":"a"}])", facts),
            R"([{"role":"user","content":[{"type":"text","text":"a"}]}])");
}

TEST(NormalizeMessages, ARefusalIsTextOfItsTurn) {
  EXPECT_EQ(after_user(R"({"role":"assistant","content":[{"type":"refusal","refusal":"No."}]})"),
            R"({"role":"assistant","content":"No."})");
}

TEST(NormalizeMessages, RolesAndUnknownMembers) {
  EXPECT_EQ(normalized(R"([{"role":"developer","content":"d","name":"n","cache":1}])"),
            R"([{"role":"system","content":"d","name":"n"}])");
  EXPECT_EQ(after_user(R"({"role":"assistant","content":null,"refusal":null,"tool_calls":[]})"),
            R"({"role":"assistant","content":""})");
  EXPECT_EQ(after_user(R"({"role":"assistant","content":"x","reasoning_content":"r"})"),
            R"({"role":"assistant","content":"x","reasoning_content":"r"})");
}

TEST(NormalizeMessages, ArgumentsBecomeWhatTheTemplateTakes) {
  const std::string call =
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"b\": 1,  \"a\": \"ü\"}"}}]})";
  EXPECT_EQ(after_user(call),
            R"({"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function",)"
            R"("function":{"name":"f","arguments":{"b":1,"a":"ü"}}}]})");
  TemplateFacts facts;
  facts.wants_arguments_text = true;
  facts.wants_null_content = true;
  EXPECT_EQ(after_user(call, facts), call);
  EXPECT_EQ(
      after_user(R"({"role":"assistant","content":"say","tool_calls":[{"id":"1","function":)"
                 R"({"name":"f","arguments":""}}]})",
                 facts),
      R"({"role":"assistant","content":"say"},{"role":"assistant","content":null,)"
      R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]})");
}

TEST(NormalizeMessages, SeveralCallsBecomeMessagesOfOne) {
  TemplateFacts facts;
  facts.wants_single_calls = true;
  const auto call = [](const char* id) {
    return std::string(R"({"id":")") + id +
           R"(","type":"function","function":{"name":"f","arguments":{}}})";
  };
  EXPECT_EQ(after_user(R"({"role":"assistant","content":"x","tool_calls":[)" + call("1") + "," +
                           call("2") + "]}",
                       facts),
            R"({"role":"assistant","content":"x","tool_calls":[)" + call("1") +
                R"(]},{"role":"assistant","content":"","tool_calls":[)" + call("2") + "]}");
}

TEST(NormalizeMessages, ResultsKeepTheirCall) {
  TemplateFacts facts;
  facts.wants_nine_character_ids = true;
  const std::string conversation =
      R"([{"role":"assistant","tool_calls":[{"id":"call_long","type":"function","function":)"
      R"({"name":"f","arguments":{}}}]},{"role":"tool","tool_call_id":"call_long","content":"r"},)"
      R"({"role":"tool","tool_call_id":"Abcdefgh1","content":"s"}])";
  const auto messages = nlohmann::json::parse(normalized(conversation, facts));
  const std::string id = messages[0]["tool_calls"][0]["id"];
  EXPECT_EQ(id.size(), 9u);
  EXPECT_EQ(messages[1]["tool_call_id"], id);
  EXPECT_EQ(messages[1]["name"], "f");
  EXPECT_EQ(messages[2]["tool_call_id"], "Abcdefgh1");
  EXPECT_FALSE(messages[2].contains("name"));
}

TEST(NormalizeMessages, NamesTheWrongMember) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", kBroken},
      {"[]", "messages: found a list of 0; accepted: a list of at least one message"},
      {"{}", "messages: found an object; accepted: a list of at least one message"},
      {"[1]", "messages[0]: found 1; accepted: an object"},
      {R"([{"content":"x"}])",
       "messages[0].role: found nothing; accepted: \"system\", \"developer\", \"user\", "
       "\"assistant\" or \"tool\""},
      {R"([{"role":"function","content":"x"}])",
       "messages[0].role: found \"function\"; accepted: \"system\", \"developer\", \"user\", "
       "\"assistant\" or \"tool\""},
      {R"([{"role":"user"}])",
       "messages[0].content: found nothing; accepted: a string or a list of parts"},
      {R"([{"role":"user","content":5}])",
       "messages[0].content: found 5; accepted: a string or a list of parts"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "messages[0].content[0].type: found \"image_url\"; accepted: \"text\" or \"refusal\""},
      {R"([{"role":"user","content":[{"type":"text"}]}])",
       "messages[0].content[0].text: found nothing; accepted: a string"},
      {R"([{"role":"user","content":["x"]}])",
       "messages[0].content[0]: found \"x\"; accepted: an object such as {\"type\": \"text\"}"},
      {R"([{"role":"user","content":"x","name":1}])",
       "messages[0].name: found 1; accepted: a string"},
      {R"([{"role":"tool","content":"x"}])",
       "messages[0].tool_call_id: found nothing; accepted: a string"},
      {R"([{"role":"assistant","tool_calls":{}}])",
       "messages[0].tool_calls: found an object; accepted: a list"},
      {R"([{"role":"assistant","tool_calls":[{"id":"a","type":"custom"}]}])",
       "messages[0].tool_calls[0].type: found \"custom\"; accepted: \"function\""},
      {R"([{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}])",
       "messages[0].tool_calls[0].function.arguments: found \"{\"; accepted: a JSON object, or a "
       "string that holds one"},
      {R"([{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name: found nothing; accepted: a string"},
      {R"([{"role":"assistant","reasoning_content":[]}])",
       "messages[0].reasoning_content: found a list of 0; accepted: a string"},
  };
  for (const auto& [messages, error] : cases) EXPECT_EQ(normalized(messages), error);
}

TEST(NormalizeMessages, RefusesWhatIsNestedTooDeep) {
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_EQ(normalized("[{\"role\":\"user\",\"content\":" + deep + "}]"), kBroken);
  const std::string call = R"([{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",)"
                           R"("arguments":"{\"a\":)" +
                           deep + "}\"}}]}]";
  EXPECT_NE(normalized(call).find("accepted: a JSON object, or a string that holds one"),
            std::string::npos);
  // Brackets within texts do not nest.
  EXPECT_NE(normalized("[{\"role\":\"user\",\"content\":\"" + deep + "\\\"[\"}]").find("[["),
            std::string::npos);
}

TEST(NormalizeMessages, ShowsLongValuesCutBetweenCharacters) {
  std::string name;
  for (int idx = 0; idx < 80; ++idx) name += "ü";
  const std::string error = normalized(R"([{"role":")" + name + R"("}])");
  EXPECT_NE(error.find("ü...\""), std::string::npos) << error;
  // Broken UTF-8 is not JSON.
  EXPECT_EQ(normalized("[{\"role\":\"\xff\"}]"), kBroken);
}

}  // namespace
}  // namespace forerun::server
