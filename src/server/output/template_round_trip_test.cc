// Tests real chat templates: their text for a tool call in the history is read back as the same
// call.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "server/output/normalize_messages.h"
#include "server/output/template_facts.h"
#include "server/output/testing.h"
#include "text/chat_template.h"
#include "text/testing.h"

namespace forerun::server {
namespace {

using Json = nlohmann::ordered_json;

struct Expected {
  ToolFormat format;
  ReasoningFormat reasoning;
  bool arguments_text, null_content, nine_character_ids;
  const char* end_token;
};

const std::map<std::string, Expected>& expectations() {
  using enum ToolFormat;
  static const std::map<std::string, Expected> all = {
      {"Qwen-Qwen2.5-7B-Instruct",
       {kHermes, ReasoningFormat::kNone, false, false, false, "<|im_end|>"}},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
       {kDeepSeek, ReasoningFormat::kThink, true, true, false, "<｜end▁of▁sentence｜>"}},
      {"meta-llama-Llama-3.1-8B-Instruct",
       {kLlamaJson, ReasoningFormat::kNone, false, false, false, "<|eot_id|>"}},
      {"meta-llama-Llama-3.2-3B-Instruct",
       {kLlamaJson, ReasoningFormat::kNone, false, false, false, "<|eot_id|>"}},
      {"mistralai-Mistral-Nemo-Instruct-2407",
       {kMistral, ReasoningFormat::kNone, false, false, true, "</s>"}},
  };
  return all;
}

class SharedTemplate {
 public:
  SharedTemplate(std::string source, std::string eos)
      : source_(std::move(source)), eos_(std::move(eos)) {}

  Result<std::string> render(const std::string& messages, const std::string& tools,
                             bool add_generation_prompt = false) const {
    auto chat = ChatTemplate::parse(source_);
    if (!chat.ok()) return chat.status();
    ChatInput input;
    input.messages_json = messages;
    input.tools_json = tools;
    input.bos_token = "<s>";
    input.eos_token = eos_;
    input.add_generation_prompt = add_generation_prompt;
    return chat->render(input);
  }
  TemplateFacts facts() const {
    return probe_template([this](const std::string& messages, const std::string& tools) {
      return render(messages, tools);
    });
  }

 private:
  std::string source_, eos_;
};

// Returns the message in which a client sends an answer back.
Json assistant_message(const ParsedMessage& message) {
  Json calls = Json::array();
  for (const ParsedCall& call : message.calls) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  Json out = {{"role", "assistant"}};
  out["content"] = message.content.empty() ? Json(nullptr) : Json(message.content);
  if (!calls.empty()) out["tool_calls"] = calls;
  return out;
}

const char* const kUser = R"({"role":"user","content":[{"type":"text","text":"Weather?"}]})";
const char* const kTools =
    R"([{"type":"function","function":{"name":"get_weather","description":"d","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}])";

ParsedMessage sample(size_t num_calls) {
  ParsedMessage message;
  message.calls.push_back(
      {"Abcdefgh0", "get_weather", R"({"city": "Oslo \"ü\" }", "days": [1, 2.5]})"});
  if (num_calls > 1)
    message.calls.push_back({"Abcdefgh1", "get_time", R"({"zone": {"name": "x"}})"});
  return message;
}

TEST(TemplateRoundTrip, CallsComeBack) {
  size_t num_read = 0;
  for (const auto& [name, expected] : expectations()) {
    SCOPED_TRACE(name);
    const std::string source = text::read_shared_file("templates/" + name + ".jinja");
    if (source.empty()) continue;
    const SharedTemplate chat(source, expected.end_token);
    const TemplateFacts facts = chat.facts();
    EXPECT_FALSE(facts.wants_content_parts);
    EXPECT_TRUE(facts.renders_tool_calls);
    // This template writes calls, but leaves the tools to the author of the prompt.
    const bool leaves_tools_out = name == std::string("deepseek-ai-DeepSeek-R1-Distill-Llama-8B");
    EXPECT_EQ(facts.renders_tools, !leaves_tools_out);
    EXPECT_EQ(facts.wants_arguments_text, expected.arguments_text);
    EXPECT_EQ(facts.wants_null_content, expected.null_content);
    EXPECT_EQ(facts.wants_nine_character_ids, expected.nine_character_ids);
    EXPECT_EQ(facts.tool_format, expected.format);
    EXPECT_EQ(facts.wants_single_calls, expected.format == ToolFormat::kLlamaJson);
    EXPECT_EQ(detect_tool_format(source), expected.format);
    EXPECT_EQ(detect_reasoning_format(source), expected.reasoning);

    for (const size_t num_calls : {1, 2}) {
      // These templates refuse more than one call in a message.
      if (num_calls == 2 && expected.format == ToolFormat::kLlamaJson) continue;
      const ParsedMessage message = sample(num_calls);
      const std::string user = "[" + std::string(kUser);
      const auto before = normalize_messages(user + "]", facts);
      const auto after =
          normalize_messages(user + "," + assistant_message(message).dump() + "]", facts);
      ASSERT_TRUE(before.ok() && after.ok()) << after.status().message();
      const auto prompt = chat.render(*before, kTools, true);
      const auto whole = chat.render(*after, kTools);
      ASSERT_TRUE(prompt.ok() && whole.ok()) << whole.status().message();
      // The prompt of R1 opens a section of reasoning, which its history omits.
      std::string begin = *prompt;
      if (prompt_opens_reasoning(expected.reasoning, begin)) begin.resize(begin.find("<think>"));
      // Qwen's history omits the newline between a role and a call.
      if (!whole->starts_with(begin) && begin.ends_with('\n')) begin.pop_back();
      ASSERT_TRUE(whole->starts_with(begin)) << *whole;
      std::string answer = whole->substr(begin.size());
      const size_t end = answer.find(expected.end_token);
      if (end != std::string::npos) answer.resize(end + std::string(expected.end_token).size());

      AssistantOutputOptions options;
      options.tool_format = facts.tool_format;
      options.reasoning_format = expected.reasoning;
      options.end_token_names = {expected.end_token};
      options.make_call_id = [](int32_t call_idx) { return "Abcdefgh" + std::to_string(call_idx); };
      for (const size_t piece_bytes : {size_t{1}, size_t{5}, answer.size()}) {
        ParsedMessage read = parse_in_pieces(options, answer, 0, piece_bytes);
        // The same JSON, with any spaces.
        ASSERT_EQ(read.calls.size(), message.calls.size()) << answer;
        EXPECT_EQ(read.content, "") << answer;
        for (size_t idx = 0; idx < read.calls.size(); ++idx) {
          EXPECT_EQ(read.calls[idx].id, message.calls[idx].id);
          EXPECT_EQ(read.calls[idx].name, message.calls[idx].name);
          EXPECT_EQ(Json::parse(read.calls[idx].arguments),
                    Json::parse(message.calls[idx].arguments));
        }
      }
    }
    ++num_read;
  }
  if (num_read == 0) GTEST_SKIP() << "no templates under " << text::shared_data_dir();
}

TEST(TemplateRoundTrip, R1OpensReasoningInItsPrompt) {
  const std::string source =
      text::read_shared_file("templates/deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja");
  if (source.empty()) GTEST_SKIP() << "no templates under " << text::shared_data_dir();
  const SharedTemplate chat(source, "");
  const auto prompt = chat.render(R"([{"role":"user","content":"Hi"}])", "", true);
  ASSERT_TRUE(prompt.ok());
  EXPECT_TRUE(prompt_opens_reasoning(ReasoningFormat::kThink, *prompt));
}

TEST(TemplateRoundTrip, SeveralCallsReachATemplateOfSingleCalls) {
  const std::string source =
      text::read_shared_file("templates/meta-llama-Llama-3.1-8B-Instruct.jinja");
  if (source.empty()) GTEST_SKIP() << "no templates under " << text::shared_data_dir();
  const SharedTemplate chat(source, "");
  const auto messages = normalize_messages(
      "[" + std::string(kUser) + "," + assistant_message(sample(2)).dump() + "]", chat.facts());
  ASSERT_TRUE(messages.ok());
  const auto text = chat.render(*messages, kTools);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_LT(text->find("{\"name\": \"get_weather\""), text->find("{\"name\": \"get_time\""));
  EXPECT_NE(text->find("{\"name\": \"get_time\""), std::string::npos);
}

// Tests our own templates in the forms that the real ones do not use.
TEST(TemplateFacts, FormsThatOthersUse) {
  struct Case {
    const char* source;
    ToolFormat format;
    bool parts, arguments_text;
  };
  const Case cases[] = {
      {"{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
       "<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}"
       "<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"
       "{% endfor %}{% endfor %}",
       ToolFormat::kQwenCoder, false, false},
      {"{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]"
       "{{ c.function.name }}[ARGS]{% if c.function.arguments is string %}{{ c.function.arguments "
       "}}"
       "{% else %}{{ c.function.arguments | tojson }}{% endif %}{% endfor %}{% endfor %}",
       ToolFormat::kMistral, false, true},
      {"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
       ToolFormat::kNone, true, false},
      {"{% for m in messages %}{{ m.content }}{% endfor %}", ToolFormat::kNone, false, false},
      {"{{ raise_exception('no') }}", ToolFormat::kNone, false, false},
  };
  for (const Case& expected : cases) {
    SCOPED_TRACE(expected.source);
    const TemplateFacts facts = SharedTemplate(expected.source, "").facts();
    EXPECT_EQ(facts.tool_format, expected.format);
    EXPECT_EQ(facts.renders_tool_calls, expected.format != ToolFormat::kNone);
    EXPECT_EQ(facts.wants_content_parts, expected.parts);
    EXPECT_EQ(facts.wants_arguments_text, expected.arguments_text);
  }
}

}  // namespace
}  // namespace forerun::server
