// Checks that every published config.json beside the repository is read, or refused for the reason
// given here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "checkpoint/model_config.h"

namespace forerun {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// The refused files with a text of each message; all other files are accepted.
const std::map<std::string, std::string> kRefused = {
    {"Mixtral-8x7B-v0.1.config.json", "MixtralForCausalLM"},
    {"deepseek.config.json", "DeepseekForCausalLM"},
    {"gpt2.config.json", "GPT2LMHeadModel"},
    {"gpt2_medium.config.json", "GPT2LMHeadModel"},
    {"starcoder2.config.json", "Starcoder2ForCausalLM"},
    {"Qwen2.5-32B-Instruct-like.config.json", "\"vocab_size\": found nothing"},
};

class SharedConfigs : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(configs_)) {
      GTEST_SKIP() << configs_ << " is absent: published configs are not checked";
    }
  }
  ModelConfig read(const std::string& name) const {
    auto config = parse_model_config(text_of(configs_ / name), name);
    EXPECT_TRUE(config.ok()) << config.status().message();
    return config.ok() ? std::move(config).value() : ModelConfig();
  }
  const std::filesystem::path configs_ =
      std::filesystem::path(FORERUN_SOURCE_DIR) / "../shared/data/configs";
};

TEST_F(SharedConfigs, AreReadOrRefusedForAReason) {
  size_t accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(configs_)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".config.json")) continue;
    const auto config = parse_model_config(text_of(entry.path()), name);
    const auto reason = kRefused.find(name);
    EXPECT_EQ(config.ok(), reason == kRefused.end()) << name << ": " << config.status().message();
    if (reason != kRefused.end()) {
      ++refused;
      EXPECT_NE(config.status().message().find(reason->second), std::string::npos)
          << config.status().message();
    } else {
      ++accepted;
    }
  }
  EXPECT_EQ(refused, kRefused.size());
  EXPECT_GE(accepted, 20u);
}

TEST_F(SharedConfigs, ValuesOfSomeThatDiffer) {
  const ModelConfig llama = read("other/Llama-3.3-70B-Instruct.config.json");
  EXPECT_EQ(llama.num_layers, 80);
  EXPECT_EQ(llama.num_kv_heads, 8);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.max_position, 131072);
  EXPECT_EQ(llama.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(llama.eos_token_ids, (std::vector<int32_t>{128001, 128008, 128009}));

  // One file gives the scaled context; the other gives linear scaling beside the context.
  const ModelConfig deepseek = read("other/deepseek-coder-6.7b.from-gguf.config.json");
  EXPECT_EQ(deepseek.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(deepseek.max_position, 16384);
  const ModelConfig vicuna = read("other/vicuna-7b-v1.5-16k.rope-linear.config.json");
  EXPECT_EQ(vicuna.rope_scaling.factor, 4.0f);
  EXPECT_EQ(vicuna.max_position, 16384);

  EXPECT_EQ(read("mlc_presets/mistral_7b.config.json").sliding_window,
            std::vector<int32_t>(32, 4096));
  EXPECT_EQ(read("mlc_presets/mistral_7b_v03.config.json").sliding_window,
            std::vector<int32_t>(32, 0));
  const ModelConfig qwen3 = read("mlc_presets/qwen3_0.6b.config.json");
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(qwen3.qk_norm && qwen3.tied_embeddings);
  EXPECT_EQ(read("mlc_presets/qwen2_7b.config.json").sliding_window, std::vector<int32_t>(28, 0));
}

}  // namespace
}  // namespace forerun
