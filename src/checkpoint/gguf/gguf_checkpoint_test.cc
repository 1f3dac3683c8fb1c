// Checks that a toy model in a GGUF file equals the same model in safetensors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_summary.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_fields.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/testing.h"
#include "forerun/sampling_fields.h"

namespace forerun {
namespace {

constexpr uint32_t kF32 = 0;

ToySpec toy(const std::string& family) {
  ToySpec spec;
  spec.family = family;
  return spec;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Checkpoint opened(const std::filesystem::path& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return std::move(checkpoint).value();
}

std::vector<float> row_of(const RawTensor& tensor, int64_t row) {
  std::vector<float> values(static_cast<size_t>(tensor.shape[1]));
  widen(tensor, row * tensor.shape[1], tensor.shape[1], values.data());
  return values;
}

// Returns a toy model with a head of an unsupported type.
GgufRig with_head_of_type(uint32_t ggml_type) {
  ToySpec tied = toy("llama");
  tied.tied = true;
  GgufRig rig = toy_gguf(tied);
  rig.tensor("output.weight", ggml_type, {256, 64}, "");
  return rig;
}

// Returns the description of one layer of llama, with an embedding, but without heads and
// feed-forward width.
GgufRig minimal() {
  GgufRig rig;
  rig.value("general.architecture", "llama")
      .value("llama.block_count", uint32_t{1})
      .value("llama.embedding_length", uint32_t{32})
      .value("llama.context_length", uint32_t{64})
      .value("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .tensor("token_embd.weight", kF32, {4, 32}, std::string(512, '\0'));
  return rig;
}

class GgufCheckpointTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name = "toy.gguf") const {
    return dir_.path() / name;
  }
  // Opens a valid file after `spoil` has changed it, and expects a refusal in one line with all of
  // the parts.
  void expect_refused(const std::vector<std::string>& parts,
                      const std::function<void(GgufRig&)>& spoil) {
    GgufRig rig = toy_gguf(toy("llama"));
    spoil(rig);
    rig.write(file());
    const auto checkpoint = Checkpoint::open(file());
    ASSERT_FALSE(checkpoint.ok()) << testing::PrintToString(parts);
    for (const std::string& part : parts) {
      EXPECT_NE(checkpoint.status().message().find(part), std::string::npos)
          << checkpoint.status().message() << "\n lacks " << part;
    }
  }
  TempDir dir_;
};

TEST_F(GgufCheckpointTest, EveryWeightIsThatOfTheSafetensors) {
  for (const char* const family : {"llama", "qwen2", "qwen3"}) {
    for (const bool tied : {false, true}) {
      ToySpec spec = toy(family);
      spec.tied = tied;
      spec.attention_bias = spec.family == "llama";
      TempDir plain_dir;
      ASSERT_TRUE(write_toy_checkpoint(plain_dir.path(), spec).ok());
      toy_gguf(spec).write(file());
      const Checkpoint plain = opened(plain_dir.path());
      const Checkpoint gguf = opened(file());
      EXPECT_EQ(gguf.config().tied_embeddings, tied);
      EXPECT_EQ(gguf.config().qkv_bias, plain.config().qkv_bias);
      EXPECT_EQ(gguf.config().qk_norm, plain.config().qk_norm);
      EXPECT_EQ(gguf.config().max_position, plain.config().max_position);
      EXPECT_EQ(gguf.config().eos_token_ids, plain.config().eos_token_ids);
      EXPECT_EQ(gguf.name(), "toy");
      for (const Module& module : decoder_modules(plain.config())) {
        for (const bool is_bias : {false, true}) {
          if (is_bias && !module.has_bias) continue;
          const RawTensor* expected = is_bias ? plain.bias(module.id) : plain.weight(module.id);
          const RawTensor* found = is_bias ? gguf.bias(module.id) : gguf.weight(module.id);
          ASSERT_NE(found, nullptr) << weight_name(module.id);
          ASSERT_EQ(found->shape, expected->shape) << found->name;
          const int64_t width = found->shape.back();
          const int64_t rows = found->shape.size() == 2 ? found->shape[0] : 1;
          std::vector<float> left(static_cast<size_t>(width)), right(left.size());
          for (int64_t row = 0; row < rows; ++row) {
            widen(*expected, row * width, width, left.data());
            widen(*found, row * width, width, right.data());
            ASSERT_EQ(left, right) << family << ' ' << found->name << " row " << row;
          }
        }
      }
    }
  }
}

TEST_F(GgufCheckpointTest, PartsOfRowsOfBlocksAreThoseOfTheWholeRow) {
  ToySpec in_q8 = toy("llama");
  in_q8.gguf_formats = {BlockFormat::kQ8_0};
  toy_gguf(in_q8).write(file());
  const Checkpoint checkpoint = opened(file());
  for (const ModuleKind kind : {ModuleKind::kQ, ModuleKind::kDown}) {
    const RawTensor& tensor = *checkpoint.weight({kind, 1});
    ASSERT_NE(tensor.blocks, nullptr);
    EXPECT_EQ(format_name(tensor), "Q8_0");
    const int64_t width = tensor.shape[1];
    for (const int64_t row : {int64_t{0}, int64_t{5}, tensor.shape[0] - 1}) {
      const std::vector<float> whole = row_of(tensor, row);
      for (int64_t first = 0; first < width; first += 7) {
        for (const int64_t count : {int64_t{1}, int64_t{31}, int64_t{33}, width - first}) {
          if (first + count > width) continue;
          std::vector<float> part(static_cast<size_t>(count));
          widen(tensor, row * width + first, count, part.data());
          ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
              << first << ' ' << count;
        }
      }
    }
  }
  const CheckpointSummary summary = summarize(checkpoint);
  EXPECT_EQ(summary.by_precision.front().precision, "Q8_0");
  EXPECT_EQ(summary.ignored_bytes, 0);
}

TEST_F(GgufCheckpointTest, RotaryFactorsAndEndsOfTurnsAreRead) {
  ToySpec spec = toy("llama");
  GgufRig rig = toy_gguf(spec);
  rig.tensor("rope_freqs.weight", kF32, {8}, bytes_of({1, 1, 1, 2, 4, 8, 8, 8}));
  std::vector<std::string> tokens(256, "");
  std::vector<int32_t> types(256, 1);
  for (int token = 0; token < 256; ++token)
    tokens[static_cast<size_t>(token)] = std::to_string(token);
  tokens[7] = "<|im_end|>";
  types[7] = 3;
  tokens[9] = "<|eot_id|>";  // as an ordinary token
  tokens[8] = "</s>";
  types[8] = 4;  // user-defined
  rig.value("tokenizer.ggml.eot_token_id", uint32_t{11});
  rig.value("tokenizer.ggml.eom_token_id", uint32_t{12});
  rig.array<int32_t>("tokenizer.ggml.eos_token_ids", {0, 13, -1, 256});
  rig.array("tokenizer.ggml.tokens", tokens).array("tokenizer.ggml.token_type", types);
  rig.write(file());
  const ModelConfig config = opened(file()).config();
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kFactors);
  EXPECT_EQ(config.rope_scaling.pair_factors, (std::vector<float>{1, 1, 1, 2, 4, 8, 8, 8}));
  EXPECT_EQ(config.eos_token_ids, (std::vector<int32_t>{0, 7, 8, 11, 12, 13}));
}

TEST_F(GgufCheckpointTest, YarnExtendsTheContext) {
  GgufRig rig = toy_gguf(toy("qwen2"));
  rig.value("qwen2.rope.scaling.type", "yarn")
      .value("qwen2.rope.scaling.factor", 4.0f)
      .value("qwen2.rope.scaling.original_context_length", uint32_t{512});
  rig.write(file());
  const ModelConfig config = opened(file()).config();
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(config.max_position, 2048);
  EXPECT_FALSE(config.rope_scaling.attention_factor);
  rig.value("qwen2.rope.scaling.attn_factor", 0.5f).write(file());
  EXPECT_NEAR(*opened(file()).config().rope_scaling.attention_factor,
              0.5f * (1.0f + 0.1f * std::log(4.0f)), 1e-6f);
}

TEST_F(GgufCheckpointTest, AFactorWithoutATypeScalesLinearly) {
  const auto scaling = [&](const std::string& name, float factor, const char* type) {
    GgufRig rig = toy_gguf(toy("llama"));
    rig.value("llama.rope." + name, factor);
    if (type != nullptr) rig.value("llama.rope.scaling.type", type);
    rig.write(file());
    return opened(file()).config().rope_scaling;
  };
  for (const char* const name : {"scaling.factor", "scale_linear"}) {
    for (const char* const type : {static_cast<const char*>(nullptr), "linear"}) {
      const RopeScaling linear = scaling(name, 4.0f, type);
      EXPECT_EQ(linear.kind, RopeScaling::Kind::kLinear) << name;
      EXPECT_EQ(linear.factor, 4.0f) << name;
    }
    const RopeScaling none = scaling(name, 4.0f, "none");
    EXPECT_EQ(none.kind, RopeScaling::Kind::kNone) << name;
    EXPECT_EQ(none.factor, 1.0f) << name;
    for (const float factor : {0.0f, 1.0f}) {
      EXPECT_EQ(scaling(name, factor, nullptr).kind, RopeScaling::Kind::kNone) << name;
    }
  }
  expect_refused({"\"llama.rope.scaling.type\": found nothing; accepted: none, since the file has "
                  "rope_freqs.weight"},
                 [](GgufRig& rig) {
                   rig.value("llama.rope.scaling.factor", 4.0f);
                   rig.tensor("rope_freqs.weight", kF32, {8}, bytes_of({1, 1, 1, 2, 4, 8, 8, 8}));
                 });
}

TEST_F(GgufCheckpointTest, RefusesWhatItWouldRunWrongly) {
  expect_refused({"toy.gguf", "\"llama.expert_count\": found 8", "accepted: 0"},
                 [](GgufRig& rig) { rig.value("llama.expert_count", uint32_t{8}); });
  expect_refused({"\"llama.rope.scaling.type\": found \"longrope\"", "none, linear or yarn"},
                 [](GgufRig& rig) { rig.value("llama.rope.scaling.type", "longrope"); });
  expect_refused({"\"llama.rope.dimension_count\": found 8", "the width of a head (16)"},
                 [](GgufRig& rig) { rig.value("llama.rope.dimension_count", uint32_t{8}); });
  expect_refused(
      {"blk.1.attn_sinks.weight", "a tensor that the file's metadata gives no place"},
      [](GgufRig& rig) { rig.tensor("blk.1.attn_sinks.weight", kF32, {1}, std::string(4, '\0')); });
  expect_refused({"\"output.weight\": found IQ2_XXS", "or one of Q4_0 Q4_1", "llama-quantize"},
                 [](GgufRig& rig) { rig = with_head_of_type(16); });
  expect_refused({"\"general.type\": found \"adapter\"; accepted: model", "llama-export-lora"},
                 [](GgufRig& rig) { rig.value("general.type", "adapter"); });
  expect_refused({"\"general.type\": found \"mmproj\"; accepted: model", "text model"},
                 [](GgufRig& rig) { rig.value("general.type", "mmproj"); });
  expect_refused({"\"llama.expert_count\"", "may run it"},
                 [](GgufRig& rig) { rig.value("llama.expert_count", uint32_t{8}); });
  expect_refused(
      {"\"tokenizer.ggml.tokens\": found an array of 257 strings",
       "at most one for each of the 256 rows of token_embd.weight"},
      [](GgufRig& rig) { rig.array("tokenizer.ggml.tokens", std::vector<std::string>(257, "x")); });
  expect_refused(
      {"toy.gguf: tensor \"rope_freqs.weight\": found F32 of shape [4]; accepted: F32 of "
       "shape [8], a factor above 0 for each pair of a head of 16 dimensions"},
      [](GgufRig& rig) {
        rig.tensor("rope_freqs.weight", kF32, {4}, bytes_of({1, 1, 1, 2}));
      });
  expect_refused(
      {"tensor \"rope_freqs.weight\": found the factor 0.000000; accepted: F32 of shape"},
      [](GgufRig& rig) {
        rig.tensor("rope_freqs.weight", kF32, {8}, bytes_of({1, 1, 1, 0, 4, 8, 8, 8}));
      });
  expect_refused({"\"general.quantization_version\": found 1; accepted: 2; convert the original "
                  "again"},
                 [](GgufRig& rig) {
                   ToySpec spec = toy("llama");
                   spec.gguf_formats = {BlockFormat::kQ8_0};
                   rig = toy_gguf(spec);
                   rig.value("general.quantization_version", uint32_t{1});
                 });
  expect_refused({"\"llama.context_length\": found 1; accepted: an integer from 2 to "},
                 [](GgufRig& rig) {
                   ToySpec spec = toy("llama");
                   spec.max_position = 1;
                   rig = toy_gguf(spec);
                 });
  GgufRig other;
  other.value("general.architecture", "mamba").write(file());
  const Status refused = Checkpoint::open(file()).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.message().find("found \"mamba\"; accepted: llama, qwen2 or qwen3"),
            std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("may run it"), std::string::npos) << refused.message();
}

TEST_F(GgufCheckpointTest, FieldsThatChangeTheArithmeticAreRefused) {
  struct Case {
    const char* name;
    float value;
    const char* accepted;
  };
  for (const Case& each : {Case{"logit_scale", 0.0625f, "1"},
                           {"residual_scale", 0.22f, "1"},
                           {"embedding_scale", 12.0f, "1"},
                           {"attn_logit_softcapping", 50.0f, "0"},
                           {"final_logit_softcapping", 30.0f, "0"},
                           {"attention.scale", 0.5f, "0.25, 1 divided by the square root of"},
                           {"attention.clamp_kqv", 8.0f, "0"},
                           {"attention.max_alibi_bias", 8.0f, "0"},
                           {"attention.temperature_scale", 0.1f, "0"},
                           {"attention.temperature_length", 8192.0f, "0"},
                           {"attention.shared_kv_layers", 2, "0"},
                           {"attention.causal", 0, "true"},
                           {"use_parallel_residual", 1, "false"},
                           {"nextn_predict_layers", 1, "0"},
                           {"num_loops", 2, "1"},
                           {"embedding_length_out", 32, "64, embedding_length"},
                           {"rope.scaling.alpha", 1000.0f, "1"},
                           {"rope.scaling.attn_factor", 0.5f, "1, unless"}}) {
    expect_refused({"\"llama." + std::string(each.name) + "\": found ",
                    "; accepted: " + std::string(each.accepted), "may run it"},
                   [&](GgufRig& rig) { rig.value("llama." + std::string(each.name), each.value); });
  }
  expect_refused({"\"llama.use_parallel_residual\": found 1; accepted: false"},
                 [](GgufRig& rig) { rig.value("llama.use_parallel_residual", true); });
  expect_refused({"\"llama.activation_sparsity_scale\": found 0.5; accepted: 0"}, [](GgufRig& rig) {
    rig.array<float>("llama.activation_sparsity_scale", {0, 0.5f});
  });
  expect_refused({"\"llama.hidden_activation\": found \"gelu\"; accepted: \"silu\" or \"swish\""},
                 [](GgufRig& rig) { rig.value("llama.hidden_activation", "gelu"); });
  expect_refused(
      {"\"llama.tensor_data_layout\": found \"other\"; accepted: \"Meta AI original pth"},
      [](GgufRig& rig) { rig.value("llama.tensor_data_layout", "other"); });
  expect_refused({"\"llama.logit_scale\": found \"1\"; accepted: a number"},
                 [](GgufRig& rig) { rig.value("llama.logit_scale", "1"); });
  expect_refused({"\"llama.rope.scaling.yarn_log_multiplier\": found 1; accepted: 0"},
                 [](GgufRig& rig) {
                   rig.value("llama.rope.scaling.type", "yarn")
                       .value("llama.rope.scaling.factor", 4.0f)
                       .value("llama.rope.scaling.yarn_log_multiplier", 1.0f);
                 });
  expect_refused({"\"llama.attention.sliding_window_pattern\": found 1; accepted: no such field"},
                 [](GgufRig& rig) {
                   rig.value("llama.attention.sliding_window", uint32_t{64})
                       .array<bool>("llama.attention.sliding_window_pattern", {true, false});
                 });
  for (const char* const type : {"linear", "yarn"}) {
    expect_refused({"\"llama.rope.scaling.factor\": found nothing; accepted: a number from 0, as "
                    "rope.scaling.type says"},
                   [&](GgufRig& rig) { rig.value("llama.rope.scaling.type", type); });
  }
  expect_refused({"\"llama.vocab_size\": found 257; accepted: at most 256, the number of rows of "
                  "token_embd.weight"},
                 [](GgufRig& rig) { rig.value("llama.vocab_size", uint32_t{257}); });
  expect_refused({"\"adapter.type\": found \"lora\"; accepted: model; merge the adapter"},
                 [](GgufRig& rig) { rig.value("adapter.type", "lora"); });
}

TEST_F(GgufCheckpointTest, NormsOfQAndKAreThoseOfQwen3) {
  expect_refused(
      {"tensor \"blk.0.attn_q_norm.weight\": found a tensor that the file's metadata "
       "gives no place"},
      [](GgufRig& rig) {
        for (const char* const name : {"blk.0.attn_q_norm.weight", "blk.1.attn_q_norm.weight"}) {
          rig.tensor(name, kF32, {16}, std::string(64, '\0'));
        }
      });
  std::string bytes = toy_gguf(toy("qwen3")).bytes();
  for (size_t at; (at = bytes.find("attn_q_norm")) != std::string::npos;) bytes[at + 5] = 'x';
  ASSERT_TRUE(write_text(file(), bytes).ok());
  EXPECT_EQ(Checkpoint::open(file()).status().message(),
            file().string() +
                ": tensor \"blk.0.attn_q_norm.weight\": not found; accepted: one of "
                "shape [16], as the file's metadata says");
}

TEST_F(GgufCheckpointTest, FieldsThatChangeNothingAreAccepted) {
  GgufRig rig = toy_gguf(toy("llama"));
  for (const char* const name :
       {"logit_scale", "residual_scale", "embedding_scale", "attention.output_scale", "num_loops",
        "rope.scaling.attn_factor", "rope.scaling.alpha"}) {
    rig.value("llama." + std::string(name), 1.0f);
  }
  for (const char* const name :
       {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv",
        "attention.max_alibi_bias", "rope.scaling.yarn_log_multiplier", "expert_count"}) {
    rig.value("llama." + std::string(name), 0.0f);
  }
  rig.value("llama.attention.scale", 0.25f)
      .value("llama.attention.causal", true)
      .value("llama.use_parallel_residual", false)
      .value("llama.tensor_data_layout", "Meta AI original pth")
      .value("llama.rope.scaling.type", "linear")
      .value("llama.rope.scaling.factor", 0.0f)
      .value("llama.rope.scaling.finetuned", false)
      .value("llama.rope.scaling.yarn_ext_factor", -1.0f)
      .array<int32_t>("llama.rope.dimension_sections", {0, 0, 0, 0})
      .value("llama.rope.freq_base_swa", 10000.0f)
      .value("llama.vocab_size", uint32_t{256})
      .value("llama.expert_used_count", uint32_t{0})
      .value("llama.ssm.inner_size", uint32_t{0})
      .value("llama.pooling_type", uint32_t{3});
  rig.tensor("rope_freqs.weight", kF32, {8}, bytes_of({1, 1, 1, 2, 4, 8, 8, 8}));
  rig.write(file());
  const Checkpoint checkpoint = opened(file());
  EXPECT_TRUE(unread_gguf_fields(*checkpoint.gguf()).empty());
}

// llama_model_save_to_file() writes every field, including those of other architectures with their
// defaults.
TEST_F(GgufCheckpointTest, DefaultsOfASavedFileChangeNothing) {
  toy_gguf(toy("llama"))
      .value("llama.attn_logit_softcapping", 50.0f)
      .value("llama.final_logit_softcapping", 30.0f)
      .value("llama.router_logit_softcapping", 30.0f)
      .value("llama.token_shift_count", uint32_t{2})
      .value("llama.attention.scale", 0.0f)
      .value("llama.wkv.head_size", uint32_t{0})
      .write(file());
  EXPECT_TRUE(unread_gguf_fields(*opened(file()).gguf()).empty());
  expect_refused({"\"llama.final_logit_softcapping\": found 20"}, [](GgufRig& rig) {
    rig.value("llama.final_logit_softcapping", 20.0f).value("llama.wkv.head_size", uint32_t{0});
  });
}

TEST_F(GgufCheckpointTest, FieldsThatNothingKnowsAreTold) {
  toy_gguf(toy("llama"))
      .value("llama.new_scale", 2.0f)
      .value("llama.vocab_size", uint32_t{2})
      .value("mradermacher.quantized_on", "a day")
      .array<std::string>("tokenizer.ggml.tokens", {"a", "b", "c"})
      .write(file());
  const Checkpoint checkpoint = opened(file());
  EXPECT_EQ(unread_gguf_fields(*checkpoint.gguf()),
            (std::vector<std::string>{"llama.new_scale",
                                      "llama.vocab_size (2, beside a list of 3 tokens)"}));
  EXPECT_EQ(summarize(checkpoint).features.back(),
            "metadata that nothing reads: llama.vocab_size (2, beside a list of 3 tokens)");
}

TEST_F(GgufCheckpointTest, ANumberMayBeGivenForEachLayer) {
  minimal()
      .array<uint32_t>("llama.feed_forward_length", {64, 64})
      .array<uint32_t>("llama.attention.head_count", {2, 2})
      .array<uint32_t>("llama.attention.head_count_kv", {1, 1})
      .write(file());
  // The description is accepted; only a tensor is missing.
  EXPECT_EQ(Checkpoint::open(file()).status().code(), StatusCode::kNotFound);
  minimal()
      .array<uint32_t>("llama.feed_forward_length", {64, 32})
      .array<uint32_t>("llama.attention.head_count", {2, 2})
      .write(file());
  EXPECT_NE(Checkpoint::open(file()).status().message().find(
                "\"llama.feed_forward_length\": found an array of 2 integers; accepted: one number "
                "for all layers"),
            std::string::npos);
}

TEST_F(GgufCheckpointTest, TensorsThatNothingReadsAreRefused) {
  for (const std::string name :
       {"output.bias", "token_embd_norm.weight", "output_norm.bias", "position_embd.weight",
        "output.scale", "rope_factors_long.weight", "v.blk.0.x", "enc.blk.0.attn_q.weight", "d2t",
        "blk.2.attn_norm.weight"}) {
    expect_refused({"toy.gguf: tensor \"" + name +
                    "\": found a tensor that the file's metadata gives "
                    "no place; accepted: the tensors of 2 layers of llama"},
                   [&](GgufRig& rig) { rig.tensor(name, kF32, {1}, std::string(4, '\0')); });
  }
  expect_refused({"tensor \"output.bias\"", "gives no place"},
                 [](GgufRig& rig) { rig.tensor("output.bias", 16, {256}, std::string(66, '\0')); });
}

TEST_F(GgufCheckpointTest, EveryTypeWithoutADecoderSaysWhatToDo) {
  int refused = 0;
  for (uint32_t type = 0; type < 45; type += kSanitized ? 4 : 1) {
    const std::string name = ggml_type_name(type);
    if (find_ggml_block_format(type) != nullptr || ggml_layout(type)) continue;
    ++refused;
    expect_refused({"\"output.weight\": found " + name + "; accepted: f32, bf16 or f16",
                    "llama-quantize --allow-requantize"},
                   [&](GgufRig& rig) { rig = with_head_of_type(type); });
  }
  EXPECT_GE(refused, kSanitized ? 5 : 20);
  expect_refused({"found IQ3_S", "code books"}, [](GgufRig& rig) { rig = with_head_of_type(21); });
  expect_refused({"found TQ1_0", "three values"},
                 [](GgufRig& rig) { rig = with_head_of_type(34); });
  expect_refused({"found Q4_0_8_8", "it is Q4_0"},
                 [](GgufRig& rig) { rig = with_head_of_type(33); });
  expect_refused({"found NVFP4", "scales"}, [](GgufRig& rig) { rig = with_head_of_type(40); });
}

TEST_F(GgufCheckpointTest, SamplingDefaultsAreThoseOfTheFile) {
  toy_gguf(toy("llama")).write(file());
  const GenerationDefaults none = opened(file()).generation_defaults().value();
  for_each_sampling_field([&](const auto& field) { EXPECT_FALSE(none.sampling.*field.option); });
  EXPECT_TRUE(none.not_applied.empty());

  toy_gguf(toy("llama"))
      .value("general.sampling.temp", 0.7f)
      .value("general.sampling.top_k", int32_t{20})
      .value("general.sampling.top_p", 0.8f)
      .value("general.sampling.min_p", 0.05f)
      .value("general.sampling.penalty_repeat", 1.1f)
      .value("general.sampling.penalty_present", 1.5f)
      .value("general.sampling.penalty_freq", 0.5f)
      .value("general.sampling.penalty_last_n", int32_t{-1})
      .value("general.sampling.mirostat", int32_t{2})
      .value("general.sampling.sequence", "edkypmxt")
      .write(file());
  const GenerationDefaults all = opened(file()).generation_defaults().value();
  EXPECT_EQ(all.sampling.temperature, 0.7f);
  EXPECT_EQ(all.sampling.top_k, 20);
  EXPECT_EQ(all.sampling.top_p, 0.8f);
  EXPECT_EQ(all.sampling.min_p, 0.05f);
  EXPECT_EQ(all.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(all.sampling.presence_penalty, 1.5f);
  EXPECT_EQ(all.sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(all.not_applied,
            (std::vector<std::string>{"general.sampling.mirostat", "general.sampling.sequence"}));
}

TEST_F(GgufCheckpointTest, PenaltiesLookBackAtAllTokensOrNone) {
  const auto defaults = [&](int32_t last, bool penalizes) {
    GgufRig rig = toy_gguf(toy("llama"));
    if (penalizes) rig.value("general.sampling.penalty_repeat", 1.1f);
    rig.value("general.sampling.penalty_last_n", last).write(file());
    return opened(file()).generation_defaults().value();
  };
  EXPECT_FALSE(defaults(0, true).sampling.repetition_penalty);
  EXPECT_TRUE(defaults(0, true).not_applied.empty());
  EXPECT_EQ(defaults(64, true).sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(defaults(64, true).not_applied.size(), 1u);
  EXPECT_TRUE(defaults(64, false).not_applied.empty());
}

TEST_F(GgufCheckpointTest, ASamplingDefaultOutOfRangeIsRefused) {
  toy_gguf(toy("llama")).value("general.sampling.top_p", 1.5f).write(file());
  const Status status = opened(file()).generation_defaults().status();
  EXPECT_NE(status.message().find("\"general.sampling.top_p\": found 1.5"), std::string::npos)
      << status.message();
}

TEST_F(GgufCheckpointTest, AMissingTensorIsNamedAsTheFileWould) {
  minimal()
      .value("llama.feed_forward_length", uint32_t{64})
      .value("llama.attention.head_count", uint32_t{2})
      .write(file());
  const Status refused = Checkpoint::open(file()).status();
  EXPECT_EQ(refused.code(), StatusCode::kNotFound);
  EXPECT_NE(refused.message().find("blk.0.attn_norm.weight"), std::string::npos)
      << refused.message();
}

TEST_F(GgufCheckpointTest, AFileOfAnotherNameIsKnownByItsFirstBytes) {
  for (const auto& [name, model] :
       {std::pair("TOY.GGUF", "TOY"), std::pair("sha256-ab12", "sha256-ab12"),
        std::pair("toy-v1.5", "toy-v1.5"), std::pair("toy.bin", "toy.bin")}) {
    toy_gguf(toy("llama")).write(file(name));
    EXPECT_EQ(opened(*resolve_checkpoint(file(name).string())).name(), model);
    EXPECT_TRUE(Checkpoint::open_draft(file(name)).ok()) << name;
  }
  for (const char* const text : {"", "GGU", "GGML and more"}) {
    ASSERT_TRUE(write_text(file("sha256-cd34"), text).ok());
    const std::string refused = Checkpoint::open(file("sha256-cd34")).status().message();
    EXPECT_TRUE(refused.starts_with(file("sha256-cd34").string() +
                                    ": found a file that is no GGUF file; accepted: a GGUF file"))
        << refused;
  }
  ASSERT_TRUE(write_text(file("TOY.GGUF"), "GGML and more").ok());
  EXPECT_NE(Checkpoint::open(file("TOY.GGUF")).status().message().find("magic: found \"GGML\""),
            std::string::npos);
}

// The families have different values, so there is no default.
TEST_F(GgufCheckpointTest, AMissingEpsilonIsRefused) {
  GgufRig rig;
  rig.value("general.architecture", "qwen2")
      .value("qwen2.block_count", uint32_t{1})
      .value("qwen2.embedding_length", uint32_t{32})
      .value("qwen2.feed_forward_length", uint32_t{64})
      .value("qwen2.attention.head_count", uint32_t{2})
      .value("qwen2.context_length", uint32_t{64})
      .write(file());
  EXPECT_EQ(Checkpoint::open(file()).status().message(),
            file().string() +
                ": metadata key \"qwen2.attention.layer_norm_rms_epsilon\": found "
                "nothing; accepted: a number from 0 to 1");
}

TEST_F(GgufCheckpointTest, AnEmptyEmbeddingIsRefused) {
  GgufRig rig;
  rig.value("general.architecture", "qwen2")
      .value("qwen2.block_count", uint32_t{1})
      .value("qwen2.embedding_length", uint32_t{32})
      .value("qwen2.feed_forward_length", uint32_t{64})
      .value("qwen2.attention.head_count", uint32_t{2})
      .value("qwen2.context_length", uint32_t{64})
      .value("qwen2.attention.layer_norm_rms_epsilon", 1e-5f)
      .tensor("token_embd.weight", kF32, {0, 32}, "")
      .write(file());
  EXPECT_EQ(Checkpoint::open(file()).status().message(),
            file().string() +
                ": tensor \"token_embd.weight\": found shape [0][32]; accepted: a row of 32 for "
                "each of the tokens");
}

TEST_F(GgufCheckpointTest, AFileOfFloatsHasTheirType) {
  toy_gguf(toy("llama")).write(file());
  EXPECT_EQ(opened(file()).config().dtype, DType::kF32);
}

TEST_F(GgufCheckpointTest, AQuantizationBehindADirectoryChoosesItsFile) {
  for (const char* const name : {"Toy-Q4_K_M.gguf", "Toy-Q8_0.gguf", "mmproj-Toy-F16.gguf",
                                 "Toy-F16-00001-of-00002.gguf", "Toy-F16-00002-of-00002.gguf"}) {
    toy_gguf(toy("llama")).write(file(name));
  }
  const std::string dir = dir_.path().string();
  EXPECT_EQ(*resolve_checkpoint(dir + ":q4_k_m"), file("Toy-Q4_K_M.gguf"));
  EXPECT_EQ(*resolve_checkpoint(dir + ":F16"), file("Toy-F16-00001-of-00002.gguf"));
  EXPECT_EQ(*resolve_checkpoint(file("Toy-Q8_0.gguf").string()), file("Toy-Q8_0.gguf"));
  const Status several = resolve_checkpoint(dir).status();
  EXPECT_NE(several.message().find("found several models (Toy-F16-00001-of-00002.gguf, "
                                   "Toy-Q4_K_M.gguf, Toy-Q8_0.gguf)"),
            std::string::npos)
      << several.message();
  const Status none = resolve_checkpoint(dir + ":Q6_K").status();
  EXPECT_NE(none.message().find("accepted: a file or folder whose name ends with \"Q6_K\""),
            std::string::npos)
      << none.message();
  EXPECT_FALSE(resolve_checkpoint(file("Toy-Q8_0.gguf").string() + ":Q8_0").ok());
}

// The names are those in repositories of unsloth, bartowski and mradermacher.
TEST_F(GgufCheckpointTest, TheClosestNameIsChosenAlsoInFolders) {
  for (const char* const name :
       {"Toy-Q4_K_M.gguf", "Toy-UD-Q4_K_M.gguf", "Toy-UD-Q2_K_XL.gguf", "Toy-Q3_K_M-v2.gguf",
        "toy_q6_k.gguf", "Toy.i1-IQ3_S.gguf", "Toy-IQ4_XS.gguf", "Toy-imatrix.gguf",
        "Toy-mmproj-BF16.gguf", "BF16/Toy-BF16-00001-of-00002.gguf",
        "BF16/Toy-BF16-00002-of-00002.gguf", "UD-Q8_K_XL/Toy-00002-of-00003.gguf",
        "UD-Q8_K_XL/Toy-00003-of-00003.gguf", "Toy-Q5_K_M/Toy-Q5_K_M.gguf", "a/Toy-Q8_0.gguf",
        "b/Toy-Q8_0.gguf", ".cache/Toy-Q2_K.gguf"}) {
    std::filesystem::create_directories(file(name).parent_path());
    ASSERT_TRUE(write_text(file(name), "").ok());
  }
  const std::string dir = dir_.path().string() + ":";
  for (const auto& [quantization, chosen] :
       {std::pair("Q4_K_M", "Toy-Q4_K_M.gguf"), std::pair("UD-Q4_K_M", "Toy-UD-Q4_K_M.gguf"),
        std::pair("q2_k_xl", "Toy-UD-Q2_K_XL.gguf"), std::pair("Q3_K_M", "Toy-Q3_K_M-v2.gguf"),
        std::pair("Q6_K", "toy_q6_k.gguf"), std::pair("IQ3_S", "Toy.i1-IQ3_S.gguf"),
        std::pair("BF16", "BF16/Toy-BF16-00001-of-00002.gguf"),
        std::pair("UD-Q8_K_XL", "UD-Q8_K_XL/Toy-00002-of-00003.gguf"),
        std::pair("Q5_K_M", "Toy-Q5_K_M/Toy-Q5_K_M.gguf")}) {
    const auto found = resolve_checkpoint(dir + quantization);
    ASSERT_TRUE(found.ok()) << quantization << ": " << found.status().message();
    EXPECT_EQ(*found, file(chosen)) << quantization;
  }
  EXPECT_EQ(resolve_checkpoint(dir + "Q8_0").status().message(),
            dir_.path().string() +
                ": found several models that \"Q8_0\" fits equally well (a/Toy-Q8_0.gguf, "
                "b/Toy-Q8_0.gguf); accepted: one of these files, or the directory with a "
                "quantization that one of them alone has, e.g. \":Q4_K_M\"");
  EXPECT_EQ(resolve_checkpoint(dir + "Q2_K").status().code(), StatusCode::kNotFound);
}

TEST_F(GgufCheckpointTest, TheOnlyModelOfADirectoryMayLieInAFolder) {
  std::filesystem::create_directories(file("Q8_0"));
  toy_gguf(toy("llama")).write(file("Q8_0/Toy.gguf"));
  EXPECT_EQ(*resolve_checkpoint(dir_.path().string()), file("Q8_0/Toy.gguf"));
  ASSERT_TRUE(write_text(file("config.json"), "{}").ok());
  EXPECT_EQ(*resolve_checkpoint(dir_.path().string()), dir_.path());
}

}  // namespace
}  // namespace forerun
