// Compares chat templates with Jinja2's output (tools/make_text_goldens.py).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/chat_template.h"

namespace forerun {
namespace {

using nlohmann::ordered_json;

const std::string kTemplateGoldens = FORERUN_SOURCE_DIR "/tests/goldens/text/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

ChatInput plain_input() {
  ChatInput input;
  input.now_unix_s = 1721952000;  // 26 Jul 2024
  return input;
}

Result<std::string> rendered(const std::string& source, const ChatInput& input) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->render(input);
}

// Templates that Jinja2 refuses must be refused; all others must give Jinja2's text.
void expect_golden(const ordered_json& golden, const Result<std::string>& got) {
  if (golden.contains("refused")) {
    EXPECT_FALSE(got.ok()) << "gave " << (got.ok() ? *got : "")
                           << "\nJinja2: " << golden["refused"].get<std::string>();
    return;
  }
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(*got, golden["rendered"].get<std::string>());
}

TEST(TemplateGoldens, Snippets) {
  const std::vector<std::string> lines = lines_of(kTemplateGoldens + "snippets.jsonl");
  ASSERT_GT(lines.size(), 250U);
  ChatInput input = plain_input();
  input.variables_json = ordered_json::parse(lines[0])["variables"].get<std::string>();
  for (size_t i = 1; i < lines.size(); ++i) {
    const ordered_json golden = ordered_json::parse(lines[i]);
    const std::string source = golden["source"].get<std::string>();
    SCOPED_TRACE(golden["topic"].get<std::string>() + ": " + source);
    expect_golden(golden, rendered(source, input));
  }
}

// Returns the text of `key`'s value within the JSON text `object`: parsing and dumping it would
// lose digits of numbers beyond 64 bits.
std::string member_text(const ordered_json& object, const char* key) {
  return object.contains(key) ? object[key].get<std::string>() : "";
}

TEST(TemplateGoldens, WholeTemplates) {
  const std::vector<std::string> lines = lines_of(kTemplateGoldens + "rendered.jsonl");
  ASSERT_GT(lines.size(), 30U);
  const ordered_json conversations = ordered_json::parse(lines[0])["conversations"];
  for (size_t i = 1; i < lines.size(); ++i) {
    const ordered_json golden = ordered_json::parse(lines[i]);
    const std::string name = golden["template"].get<std::string>();
    const std::string conversation = golden["conversation"].get<std::string>();
    SCOPED_TRACE(name + ", " + conversation);
    const ordered_json& given = conversations[conversation];
    ChatInput input = plain_input();
    input.messages_json = member_text(given, "messages");
    input.tools_json = member_text(given, "tools");
    input.variables_json = member_text(given, "variables");
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    input.add_generation_prompt = given.value("add_generation_prompt", true);
    const std::string source = read_file(kTemplateGoldens + "templates/" + name);
    ASSERT_FALSE(source.empty());
    expect_golden(golden, rendered(source, input));
  }
}

}  // namespace
}  // namespace forerun
