// Tests EAGLE-3 heads in the layouts of SpecForge, AngelSlim and speculators: the fields that are
// read, the requirements for a target, and refusals.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

using Layout = ToySpec::HeadLayout;
using Norm = Eagle3Config::NormOfTaps;

ToySpec toy_head(Layout layout = Layout::kSpecForge) {
  ToySpec spec;
  spec.num_layers = 1;
  spec.head_layout = layout;
  spec.eagle3.emplace();
  spec.eagle3->target_hidden_size = 64;
  spec.eagle3->own_embedding = false;
  return spec;
}

Result<Checkpoint> open_toy(
    const ToySpec& spec, const std::function<void(std::vector<StoredTensor>&)>& spoil = nullptr) {
  const TempDir dir;
  EXPECT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  if (spoil) {
    auto tensors = toy_tensors(spec);
    spoil(tensors);
    EXPECT_TRUE(write_safetensors(dir.path() / "model.safetensors", tensors).ok());
  }
  return Checkpoint::open_eagle3(dir.path());
}

ModelConfig toy_target() {
  ModelConfig target;
  target.num_layers = 10;
  target.hidden_size = 64;
  target.vocab_size = 256;
  return target;
}

TEST(Eagle3, EveryLayoutFlagAndModuleIsRead) {
  for (const Layout layout : {Layout::kSpecForge, Layout::kAngelSlim, Layout::kSpeculators}) {
    for (const Norm norm : {Norm::kNone, Norm::kTogether, Norm::kEach}) {
      ToySpec spec = toy_head(layout);
      Eagle3Config& head = *spec.eagle3;
      head.norm_of_taps = norm;
      head.draft_vocab_size = norm == Norm::kNone ? 0 : 100;
      head.norm_before_residual = norm == Norm::kEach;
      head.feeds_back_normalized = layout != Layout::kSpecForge && norm == Norm::kTogether;
      head.own_embedding = norm != Norm::kNone;
      head.own_head = norm != Norm::kNone;
      head.target_hidden_size = norm == Norm::kEach ? 48 : 64;
      if (layout == Layout::kSpeculators) {
        spec.family = "qwen3";
        spec.num_layers = 2;  // the second layer has no feature
      }
      const auto opened = open_toy(spec);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      const ModelConfig& config = opened->config();
      ASSERT_TRUE(config.eagle3);
      const Eagle3Config& found = *config.eagle3;
      EXPECT_EQ(found.norm_of_taps, norm);
      EXPECT_EQ(found.norm_before_residual, head.norm_before_residual);
      EXPECT_EQ(found.feeds_back_normalized, head.feeds_back_normalized);
      EXPECT_EQ(found.own_embedding, head.own_embedding);
      EXPECT_EQ(found.own_head, head.own_head);
      EXPECT_EQ(found.target_hidden_size, head.target_hidden_size);
      EXPECT_EQ(found.draft_vocab_size, norm == Norm::kNone ? 256 : 100);
      EXPECT_EQ(config.num_layers, spec.num_layers);
      for (const Module& module : decoder_modules(config)) {
        EXPECT_NE(opened->weight(module.id), nullptr)
            << module_name(module.id, ModuleNaming::kHuggingFace);
      }
      const RawTensor* const q = opened->weight({ModuleKind::kQ, 0});
      EXPECT_EQ(q->shape, (std::vector<int64_t>{64, 128}));
      EXPECT_EQ(opened->weight({ModuleKind::kTapProjection})->shape[1],
                3 * head.target_hidden_size);
      EXPECT_EQ(opened->weight({ModuleKind::kHiddenNorm, 1}), nullptr);
      const auto tokens = opened->draft_tokens();
      ASSERT_EQ(tokens.size(), norm == Norm::kNone ? 0u : 100u);
      if (!tokens.empty()) {
        EXPECT_EQ(tokens[1], 2);
        EXPECT_EQ(tokens[99], 253);
      }
    }
  }
}

TEST(Eagle3, TapsAreCountedAsTheFileCountsThem) {
  const auto taps = [](std::vector<int32_t> layers, bool name_outputs) {
    ToySpec spec = toy_head();
    spec.eagle3->tap_layers = std::move(layers);
    spec.eagle3->taps_name_outputs = name_outputs;
    const auto opened = open_toy(spec);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return fit_eagle3(opened->config(), toy_target());
  };
  EXPECT_EQ(*taps({}, false), (std::vector<int32_t>{2, 5, 7}));
  EXPECT_EQ(*taps({1, 4, 6}, false), (std::vector<int32_t>{1, 4, 6}));
  EXPECT_EQ(*taps({1, 4, 6}, true), (std::vector<int32_t>{2, 5, 7}));
  // This is the default, which no file means as outputs.
  EXPECT_EQ(*taps({2, 5, 7}, true), (std::vector<int32_t>{2, 5, 7}));
  EXPECT_EQ(*taps({0, 10}, false), (std::vector<int32_t>{0, 10}));
  EXPECT_NE(taps({1, 10}, true)
                .status()
                .message()
                .find("found a tap after 11 layers; accepted: after 0 to 10"),
            std::string::npos);
}

TEST(Eagle3, TargetsThatDoNotFitAreRefused) {
  const auto refusal = [](const ModelConfig& target) {
    const auto opened = open_toy(toy_head());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return fit_eagle3(opened->config(), target).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refusal(toy_target()), "");
  ModelConfig target = toy_target();
  target.hidden_size = 128;
  EXPECT_TRUE(has(refusal(target), "\"target_hidden_size\": found 64; accepted: 128"));
  target = toy_target();
  target.vocab_size = 300;
  EXPECT_TRUE(has(refusal(target), "\"vocab_size\": found 256; accepted: 300"));
  target.live_vocab_size = 256;
  EXPECT_EQ(refusal(target), "");
  target = toy_target();
  target.num_layers = 2;
  EXPECT_TRUE(has(refusal(target), "found a tap after -1 layers; accepted: after 0 to 2"));
}

TEST(Eagle3, RefusesByName) {
  const auto refusal = [](const ToySpec& spec,
                          const std::function<void(std::vector<StoredTensor>&)>& spoil = nullptr) {
    return open_toy(spec, spoil).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    const bool found = text.find(part) != std::string::npos;
    EXPECT_TRUE(found) << text;
    return found;
  };
  const auto erase = [](const char* name) {
    return [name](std::vector<StoredTensor>& tensors) {
      std::erase_if(tensors, [name](const StoredTensor& each) { return each.name == name; });
    };
  };
  ToySpec spec = toy_head();
  EXPECT_EQ(refusal(spec), "");
  EXPECT_TRUE(has(refusal(spec, erase("midlayer.hidden_norm.weight")),
                  "tensor \"midlayer.hidden_norm.weight\": not found"));
  EXPECT_TRUE(has(refusal(spec, erase("fc.weight")), "fc.weight\": not found"));
  EXPECT_TRUE(has(refusal(spec,
                          [](auto& tensors) {
                            tensors.push_back({"midlayer.extra.weight", "F32", {1}, {4, {}}});
                          }),
                  "gives no place"));
  EXPECT_TRUE(
      has(refusal(spec,
                  [](auto& tensors) {
                    tensors.push_back({"fc.bias", "F32", {64}, std::vector<std::byte>(256)});
                  }),
          "\"fc.bias\": found a bias; accepted: a projection without one"));
  spec.eagle3->draft_vocab_size = 100;
  EXPECT_TRUE(has(refusal(spec, erase("d2t")), "tensor \"d2t\": not found; accepted: a token for"));
  EXPECT_TRUE(has(refusal(spec, erase("lm_head.weight")),
                  "\"lm_head.weight\": not found; accepted: a head of 100 rows"));
  const auto set_distance = [](int64_t distance) {
    return [distance](std::vector<StoredTensor>& tensors) {
      for (StoredTensor& each : tensors) {
        if (each.name == "d2t") std::memcpy(each.bytes.data() + 8 * 3, &distance, 8);
      }
    };
  };
  EXPECT_TRUE(has(refusal(spec, set_distance(2)), "row 3 and 2, the token of another row"));
  EXPECT_TRUE(has(refusal(spec, set_distance(253)), "accepted: sums from 0 to 255, each once"));
  EXPECT_TRUE(has(refusal(spec, set_distance(-4)), "row 3 and -4; accepted: sums"));
  EXPECT_TRUE(has(refusal(spec, set_distance(INT64_MAX)), "accepted: sums from 0 to 255"));
  spec = toy_head();
  spec.eagle3->target_hidden_size = 32;
  EXPECT_TRUE(has(refusal(spec), "\"embed_tokens.weight\": not found; accepted: one of width 64"));
  spec = toy_head();
  spec.eagle3->norm_of_taps = Norm::kEach;
  spec.eagle3->tap_layers = {1, 2};
  EXPECT_TRUE(has(refusal(spec), "\"fc_norm\": found true with 2 taps; accepted: false, or three"));

  const auto text = [](const char* fields) {
    return parse_eagle3_config(
               std::string(R"({"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256,
                     "intermediate_size": 128, "num_hidden_layers": 1, )") +
                   fields + "}",
               "config.json")
        .status()
        .message();
  };
  const std::string spec_forge = R"("architectures": ["LlamaForCausalLMEagle3"])";
  EXPECT_EQ(text(spec_forge.c_str()), "");
  EXPECT_TRUE(has(text(R"("architectures": ["LlamaForCausalLM"])"),
                  "found \"LlamaForCausalLM\"; accepted: LlamaForCausalLMEagle3"));
  EXPECT_TRUE(has(text((spec_forge + R"(, "norm_output": false)").c_str()), "\"norm_output\""));
  EXPECT_EQ(text((spec_forge + R"(, "norm_output": true)").c_str()), "");
  EXPECT_TRUE(has(text((spec_forge + R"(, "fc_norm": true, "norm_before_fc": true)").c_str()),
                  "one of norm_before_fc and fc_norm, not both"));
  EXPECT_TRUE(
      has(text((spec_forge + R"(, "eagle_config": {"use_aux_hidden_state": false})").c_str()),
          "use_aux_hidden_state"));
  EXPECT_TRUE(has(text((spec_forge + R"(, "draft_vocab_size": 257)").c_str()), "draft_vocab_size"));
  EXPECT_TRUE(has(text((spec_forge + R"(, "model_type": "mistral")").c_str()), "model_type"));
}

// Returns a head in the layout of llama.cpp's converter, with the layer's description under
// eagle3.* and tokens in d2t.
ToySpec toy_gguf_head() {
  ToySpec spec = toy_head();
  spec.eagle3->tap_layers = {2, 5, 7};
  spec.eagle3->draft_vocab_size = 100;
  spec.eagle3->norm_of_taps = Norm::kTogether;
  spec.eagle3->norm_before_residual = true;
  return spec;
}

TEST(Eagle3, GgufFilesAreRead) {
  const TempDir dir;
  const std::filesystem::path path = dir.path() / "head.gguf";
  for (const bool reduced : {false, true}) {
    ToySpec spec = toy_gguf_head();
    if (!reduced) spec.eagle3->draft_vocab_size = 0;
    spec.eagle3->own_head = reduced;
    toy_gguf(spec).write(path);
    const auto opened = Checkpoint::open_draft(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const ModelConfig& config = opened->config();
    ASSERT_TRUE(config.eagle3);
    const Eagle3Config& found = *config.eagle3;
    EXPECT_EQ(config.vocab_size, 256);
    EXPECT_EQ(config.num_layers, 1);
    EXPECT_EQ(found.target_hidden_size, 64);
    EXPECT_EQ(found.draft_vocab_size, reduced ? 100 : 256);
    EXPECT_EQ(found.norm_of_taps, Norm::kTogether);
    EXPECT_TRUE(found.norm_before_residual);
    EXPECT_FALSE(found.feeds_back_normalized);
    EXPECT_FALSE(found.own_embedding);
    EXPECT_EQ(found.own_head, reduced);
    EXPECT_EQ(*fit_eagle3(config, toy_target()), (std::vector<int32_t>{2, 5, 7}));
    ASSERT_EQ(opened->draft_tokens().size(), reduced ? 100u : 0u);
    if (reduced) {
      EXPECT_EQ(opened->draft_tokens()[99], 253);
    }
  }
}

TEST(Eagle3, GgufFilesThatDoNotFitAreRefused) {
  const TempDir dir;
  const std::filesystem::path path = dir.path() / "head.gguf";
  const auto refusal = [&path](const GgufRig& rig) {
    rig.write(path);
    return Checkpoint::open_draft(path).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    const bool found = text.find(part) != std::string::npos;
    EXPECT_TRUE(found) << text;
    return found;
  };
  ToySpec spec = toy_gguf_head();
  EXPECT_EQ(refusal(toy_gguf(spec)), "");
  EXPECT_TRUE(has(Checkpoint::open(path).status().message(),
                  "\"eagle3\"; accepted: llama, qwen2 or qwen3; it is a trained head: --draft "
                  "takes it"));
  const TempDir directory;
  ASSERT_TRUE(write_toy_checkpoint(directory.path(), toy_head()).ok());
  EXPECT_TRUE(has(Checkpoint::open(directory.path()).status().message(),
                  "it is a trained head: --draft takes it, beside its target"));
  spec.eagle3->tap_layers = {};
  EXPECT_TRUE(
      has(refusal(toy_gguf(spec)), "eagle3.target_layers\": found 0 layers; accepted: 1 to 8"));
  spec = toy_gguf_head();
  const auto with_tokens = [&](std::vector<int64_t> tokens) {
    spec.eagle3->draft_vocab_size = 0;
    GgufRig rig = toy_gguf(spec);
    std::string bytes;
    for (const int64_t token : tokens) bytes += gguf_bytes(token);
    rig.tensor("d2t", 27, {tokens.size()}, bytes);
    return refusal(rig);
  };
  std::vector<int64_t> tokens(256);
  for (size_t row = 0; row < tokens.size(); ++row) tokens[row] = static_cast<int64_t>(row);
  EXPECT_EQ(with_tokens(tokens), "");
  tokens[3] = 256;
  EXPECT_TRUE(has(with_tokens(tokens), "row 3 and 256; accepted: tokens from 0 to 255, each once"));
  tokens[3] = INT64_MIN;
  EXPECT_TRUE(has(with_tokens(tokens), "accepted: tokens from 0 to 255"));
  tokens[3] = 2;
  EXPECT_TRUE(has(with_tokens(tokens), "row 3 and 2, the token of another row"));
}

TEST(Eagle3, TheHandedHeadIsRead) {
  const std::filesystem::path dir = std::filesystem::path(FORERUN_SOURCE_DIR) /
                                    "../shared/data/heads/smollm2-135m-instruct-eagle3";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " is absent";
  const auto opened = Checkpoint::open_eagle3(dir);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ModelConfig& config = opened->config();
  EXPECT_FALSE(config.eagle3->own_embedding);
  EXPECT_FALSE(config.eagle3->own_head);
  EXPECT_EQ(config.num_layers, 1);
  ModelConfig target = toy_target();
  target.hidden_size = 576;
  target.vocab_size = 49152;
  target.num_layers = 30;
  EXPECT_EQ(*fit_eagle3(config, target), (std::vector<int32_t>{2, 15, 27}));
}

}  // namespace
}  // namespace forerun
