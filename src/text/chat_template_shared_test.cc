// Compares real templates with Jinja2's renderings, token ids included.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_template.h"
#include "text/testing.h"
#include "text/tokenizer.h"

namespace forerun {
namespace {

using nlohmann::ordered_json;

ChatInput input_of(const ordered_json& entry) {
  ChatInput input;
  input.messages_json = entry["messages"].dump();
  if (entry.contains("tools") && !entry["tools"].is_null()) {
    input.tools_json = entry["tools"].dump();
  }
  input.bos_token = entry["bos_token"].get<std::string>();
  input.eos_token = entry["eos_token"].get<std::string>();
  input.add_generation_prompt = entry["add_generation_prompt"].get<bool>();
  input.now_unix_s = 1721952000;  // 26 Jul 2024
  return input;
}

TEST(SharedTemplates, RenderAsJinjaDoes) {
  const auto lines = text::read_shared_lines("templates/rendered.jsonl");
  if (lines.empty()) GTEST_SKIP() << "no templates under " << text::shared_data_dir();
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  int rendered = 0;
  int tokenized = 0;
  for (const std::string& line : lines) {
    const ordered_json entry = ordered_json::parse(line);
    const std::string name = entry["template"].get<std::string>();
    SCOPED_TRACE(name + " " + entry["case"].get<std::string>());
    const auto chat = ChatTemplate::parse(text::read_shared_file("templates/" + name + ".jinja"));
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    const auto got = chat->render(input_of(entry));
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(*got, entry["rendered"].get<std::string>());
    ++rendered;
    if (!entry.contains("token_ids") || entry["token_ids"].is_null()) continue;
    const std::string tokenizer_name = entry["tokenizer"].get<std::string>();
    auto& tokenizer = tokenizers[tokenizer_name];
    if (!tokenizer) tokenizer = text::load_shared_tokenizer(tokenizer_name);
    if (!tokenizer) continue;
    const auto ids = tokenizer->encode(*got, {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, entry["token_ids"].get<std::vector<int32_t>>());
    ++tokenized;
  }
  EXPECT_GT(rendered, 0);
  std::printf("%d renderings, %d with token ids\n", rendered, tokenized);
}

}  // namespace
}  // namespace forerun
