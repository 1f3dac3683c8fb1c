// Tests chat templates and tokenizers of GGUF files.
#include "engine/load/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

constexpr const char* kRegular = "tokenizer.chat_template";
constexpr const char* kToolUse = "tokenizer.chat_template.tool_use";
constexpr const char* kRag = "tokenizer.chat_template.rag";

class ModelTextTest : public ::testing::Test {
 protected:
  Checkpoint opened(const std::function<void(GgufRig&)>& add) {
    ToySpec spec;
    spec.family = "llama";
    GgufRig rig = toy_gguf(spec);
    add(rig);
    const std::filesystem::path file = dir_.path() / "toy.gguf";
    rig.write(file);
    auto checkpoint = Checkpoint::open(file);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    return std::move(checkpoint).value();
  }

  std::string refusal_of(const std::function<void(GgufRig&)>& add) {
    const auto found = load_chat_template(opened(add));
    EXPECT_FALSE(found.ok());
    return found.status().message();
  }

  TempDir dir_;
};

std::string rendered(const ChatTemplate& chat_template, const char* tools) {
  ChatInput input;
  input.messages_json = R"([{"role":"user","content":"hello"}])";
  input.tools_json = tools;
  const auto text = chat_template.render(input);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

TEST_F(ModelTextTest, TheTemplateForToolsIsTakenWhereToolsAreGiven) {
  const auto found = load_chat_template(opened([](GgufRig& rig) {
    rig.array<std::string>("tokenizer.chat_templates", {"rag", "tool_use"});
    rig.value(kRag, "rag").value(kToolUse, "tools {{ messages[0]['content'] }}");
    rig.value(kRegular, "regular {{ messages[0]['content'] }}");
  }));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(rendered(*found, ""), "regular hello");
  EXPECT_EQ(rendered(*found, kTools), "tools hello");
}

TEST_F(ModelTextTest, OneTemplateServesBoth) {
  const auto found = load_chat_template(opened([](GgufRig& rig) {
    rig.array<std::string>("tokenizer.ggml.tokens", {"<s>", "</s>", "x"});
    rig.value<uint32_t>("tokenizer.ggml.bos_token_id", 0);
    rig.value(kRag, "rag").value(kRegular, "{{ bos_token }}{{ 'tools' if tools else 'none' }}");
  }));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(rendered(*found, ""), "<s>none");
  EXPECT_EQ(rendered(*found, kTools), "<s>tools");
}

TEST_F(ModelTextTest, APaddingTokenBeyondTheListIsNone) {
  for (const uint32_t id : {2u, 3u, UINT32_MAX}) {
    const Checkpoint checkpoint = opened([&](GgufRig& rig) {
      rig.value("tokenizer.ggml.model", "llama");
      rig.array<std::string>("tokenizer.ggml.tokens", {"<s>", "</s>", "x"});
      rig.value<uint32_t>("tokenizer.ggml.padding_token_id", id);
    });
    const auto vocabulary = read_gguf_vocabulary(*checkpoint.gguf());
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
    EXPECT_EQ(vocabulary->pad, id == 2 ? std::optional<int32_t>(2) : std::nullopt);
  }
}

TEST_F(ModelTextTest, RefusesTemplatesByName) {
  EXPECT_NE(refusal_of([](GgufRig&) {})
                .find("toy.gguf: found no chat template; accepted: metadata "
                      "key tokenizer.chat_template"),
            std::string::npos);
  EXPECT_NE(refusal_of([](GgufRig& rig) {
              rig.array<std::string>("tokenizer.chat_templates", {"rag", "tool_use"});
              rig.value(kRag, "rag").value(kToolUse, "tools");
            }).find("found no chat template but rag, tool_use; accepted: "),
            std::string::npos);
  EXPECT_NE(refusal_of([](GgufRig& rig) {
              rig.value(kRegular, "regular").value(kToolUse, "{% if %}");
            }).find("tokenizer.chat_template.tool_use: "),
            std::string::npos);
  EXPECT_NE(refusal_of([](GgufRig& rig) {
              rig.value<uint32_t>(kRegular, 7);
            }).find("\"tokenizer.chat_template\": found 7; accepted: a string"),
            std::string::npos);
  EXPECT_NE(
      refusal_of([](GgufRig& rig) {
        rig.array<std::string>("tokenizer.chat_templates", {"default", "rag"});
        rig.value(kRegular, "regular");
      })
          .find("metadata key \"tokenizer.chat_templates\": found \"rag\" without its template; "
                "accepted: names of templates that the file has, as "
                "tokenizer.chat_template.rag"),
      std::string::npos);
  for (const char* const empty : {"", " \n"}) {
    EXPECT_NE(refusal_of([&](GgufRig& rig) { rig.value(kRegular, empty); })
                  .find("tokenizer.chat_template: found an empty template; accepted: a Jinja "
                        "template of messages"),
              std::string::npos);
  }
}

TEST_F(ModelTextTest, AFileWithoutATokenizerIsRefused) {
  const auto found = load_tokenizer(opened([](GgufRig&) {}));
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("\"tokenizer.ggml.model\": found nothing; accepted: "),
            std::string::npos)
      << found.status().message();
}

}  // namespace
}  // namespace forerun
