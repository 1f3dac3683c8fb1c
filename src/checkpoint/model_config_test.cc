#include "checkpoint/model_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "checkpoint/testing.h"

namespace forerun {
namespace {

std::string minimal(const std::string& family, const std::string& more) {
  return R"({"model_type":")" + family +
         R"(","num_hidden_layers":4,"hidden_size":64,"intermediate_size":128,)"
         R"("num_attention_heads":32,"vocab_size":100)" +
         (more.empty() ? "" : ",") + more + "}";
}

ModelConfig accepted(const std::string& text) {
  auto config = parse_model_config(text, "config.json");
  EXPECT_TRUE(config.ok()) << text << "\n -> " << config.status().message();
  return config.ok() ? std::move(config).value() : ModelConfig();
}

Status refused(const std::string& text) {
  const auto config = parse_model_config(text, "config.json");
  EXPECT_FALSE(config.ok()) << text;
  return config.status();
}

void expect_refused(const std::string& text) { EXPECT_FALSE(refused(text).message().empty()); }

TEST(ModelConfig, MissingFieldsTakeTheDefaultsOfTheirFamily) {
  const ModelConfig llama = accepted(minimal("llama", ""));
  EXPECT_EQ(llama.architecture, "LlamaForCausalLM");
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 2);
  EXPECT_EQ(llama.max_position, 2048);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6f);
  EXPECT_EQ(llama.rope_theta, 10000.0f);
  EXPECT_EQ(llama.rope_scaling.kind, RopeScaling::Kind::kNone);
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_EQ(llama.eos_token_ids, std::vector<int32_t>{2});
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_FALSE(llama.qkv_bias || llama.o_bias || llama.mlp_bias || llama.qk_norm);
  EXPECT_FALSE(llama.dtype_stated);
  EXPECT_EQ(llama.sliding_window, std::vector<int32_t>(4, 0));

  const ModelConfig qwen2 = accepted(minimal("qwen2", ""));
  EXPECT_EQ(qwen2.max_position, 32768);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias || qwen2.qk_norm);
  EXPECT_EQ(qwen2.bos_token_id, std::nullopt);
  EXPECT_TRUE(qwen2.eos_token_ids.empty());

  const ModelConfig qwen3 = accepted(minimal("qwen3", ""));
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);

  const ModelConfig mistral = accepted(minimal("mistral", ""));
  EXPECT_EQ(mistral.num_kv_heads, 8);
  EXPECT_EQ(mistral.max_position, 131072);
  EXPECT_EQ(mistral.sliding_window, std::vector<int32_t>(4, 4096));
}

TEST(ModelConfig, NullKeyValueHeadsMeanAsManyAsHeads) {
  EXPECT_EQ(accepted(minimal("mistral", R"("num_key_value_heads":null)")).num_kv_heads, 32);
  EXPECT_EQ(accepted(minimal("qwen2", R"("num_key_value_heads":null)")).num_kv_heads, 32);
}

TEST(ModelConfig, BiasSwitches) {
  const ModelConfig llama = accepted(minimal("llama", R"("attention_bias":true,"mlp_bias":true)"));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const ModelConfig qwen3 = accepted(minimal("qwen3", R"("attention_bias":true)"));
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.o_bias);
  expect_refused(minimal("mistral", R"("attention_bias":true)"));
  expect_refused(minimal("qwen3", R"("mlp_bias":true)"));
}

TEST(ModelConfig, SlidingWindowByFamily) {
  using Windows = std::vector<int32_t>;
  const auto windows = [](const char* family, const std::string& more) {
    return accepted(minimal(family, more)).sliding_window;
  };
  EXPECT_EQ(windows("mistral", R"("sliding_window":null)"), Windows(4, 0));
  EXPECT_EQ(windows("mistral", R"("sliding_window":16)"), Windows(4, 16));
  EXPECT_EQ(windows("llama", R"("sliding_window":16)"), Windows(4, 0));
  EXPECT_EQ(windows("qwen2", R"("sliding_window":16,"max_window_layers":1)"), Windows(4, 0));
  const std::string on = R"("use_sliding_window":true,"sliding_window":16,"max_window_layers":)";
  EXPECT_EQ(windows("qwen2", on + "1"), (Windows{0, 16, 16, 16}));
  EXPECT_EQ(windows("qwen3", on + "3"), (Windows{0, 0, 0, 16}));
  EXPECT_EQ(windows("qwen3", on + "4"), Windows(4, 0));
  EXPECT_EQ(windows("qwen2", on + R"(9,"layer_types":["sliding_attention","full_attention",)"
                                  R"("sliding_attention","full_attention"])"),
            (Windows{16, 0, 16, 0}));
  // The windows have no width, another number of layers, or an unknown kind.
  expect_refused(minimal("qwen2", R"("layer_types":["sliding_attention","full_attention",)"
                                  R"("full_attention","full_attention"])"));
  expect_refused(minimal("qwen2", R"("layer_types":["full_attention"])"));
  expect_refused(minimal("qwen2", R"("layer_types":["a","b","c","d"])"));
  expect_refused(minimal("mistral", R"("sliding_window":16,"layer_types":["sliding_attention",)"
                                    R"("full_attention","sliding_attention","full_attention"])"));
  expect_refused(minimal("mistral", R"("sliding_window":0)"));
}

TEST(ModelConfig, RopeInBothSpellings) {
  const char* old_llama3 =
      R"("max_position_embeddings":131072,"rope_theta":500000.0,"rope_scaling":{"factor":8.0,)"
      R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,)"
      R"("rope_type":"llama3"})";
  const char* new_llama3 =
      R"("max_position_embeddings":131072,"rope_parameters":{"rope_theta":500000.0,"factor":8.0,)"
      R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,)"
      R"("rope_type":"llama3"})";
  for (const char* text : {old_llama3, new_llama3}) {
    const ModelConfig config = accepted(minimal("llama", text));
    EXPECT_EQ(config.rope_theta, 500000.0f);
    EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kLlama3);
    EXPECT_EQ(config.rope_scaling.factor, 8.0f);
    EXPECT_EQ(config.rope_scaling.original_max_position, 8192);
    EXPECT_EQ(config.max_position, 131072);
  }
  const ModelConfig linear = accepted(minimal(
      "llama", R"("max_position_embeddings":16384,"rope_scaling":{"type":"linear","factor":4.0})"));
  EXPECT_EQ(linear.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(linear.rope_scaling.factor, 4.0f);
  EXPECT_EQ(linear.max_position, 16384);
  const ModelConfig both = accepted(minimal(
      "llama", R"("rope_theta":7.0,"rope_parameters":{"rope_type":"default","rope_theta":7.0})"));
  EXPECT_EQ(both.rope_theta, 7.0f);
}

TEST(ModelConfig, YarnAndItsContext) {
  const ModelConfig yarn = accepted(minimal(
      "qwen2", R"("max_position_embeddings":32768,"rope_scaling":{"type":"yarn","factor":4.0,)"
               R"("original_max_position_embeddings":32768,"beta_slow":0,"truncate":false})"));
  EXPECT_EQ(yarn.rope_scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(yarn.rope_scaling.beta_fast, 32.0f);
  EXPECT_EQ(yarn.rope_scaling.beta_slow, 1.0f);
  EXPECT_FALSE(yarn.rope_scaling.truncate);
  EXPECT_EQ(yarn.max_position, 131072);
  // The context is already multiplied, and the factor follows from the ratio.
  const ModelConfig ratio = accepted(minimal(
      "qwen2", R"("max_position_embeddings":131072,"rope_scaling":{"type":"yarn","factor":null,)"
               R"("original_max_position_embeddings":32768})"));
  EXPECT_EQ(ratio.rope_scaling.factor, 4.0f);
  EXPECT_EQ(ratio.max_position, 131072);
}

TEST(ModelConfig, DTypeInBothSpellings) {
  EXPECT_EQ(accepted(minimal("llama", R"("torch_dtype":"float16")")).dtype, DType::kF16);
  EXPECT_EQ(accepted(minimal("llama", R"("dtype":"float32")")).dtype, DType::kF32);
  EXPECT_TRUE(accepted(minimal("llama", R"("dtype":"bfloat16")")).dtype_stated);
  expect_refused(minimal("llama", R"("dtype":"bfloat16","torch_dtype":"float16")"));
}

TEST(ModelConfig, AwqDescriptions) {
  const ModelConfig awq = accepted(minimal(
      "qwen3", R"("quantization_config":{"bits":4,"group_size":64,"modules_to_not_convert":)"
               R"(["lm_head"],"quant_method":"awq","version":"GEMM","zero_point":true})"));
  EXPECT_EQ(awq.quantization.kind, QuantizationConfig::Kind::kParts);
  ASSERT_EQ(awq.quantization.schemes.size(), 1u);
  EXPECT_EQ(awq.quantization.schemes[0].group_size, 64);
  EXPECT_EQ(awq.quantization.left_out, std::vector<std::string>{"lm_head"});
  EXPECT_EQ(awq.quantization.schemes[0].bits, 4);
}

struct RefusalCase {
  const char* family;
  const char* more;
  StatusCode code;
  const char* parts[3];  // of the message
};

constexpr const char* kWaysOut[] = {"may run it", "save_pretrained(OUT)", "take the original",
                                    "quantize the original"};

void expect_refused(std::span<const RefusalCase> cases) {
  for (const RefusalCase& test : cases) {
    const Status status = refused(minimal(test.family, test.more));
    EXPECT_EQ(status.code(), test.code) << status.message();
    EXPECT_EQ(status.message().rfind("config.json: field ", 0), 0u) << status.message();
    for (const char* part : test.parts) {
      EXPECT_NE(status.message().find(part), std::string::npos)
          << status.message() << "\n lacks " << part;
    }
    if (test.code != StatusCode::kUnsupported) continue;
    // Each refusal of an unsupported format gives advice.
    EXPECT_TRUE(std::any_of(std::begin(kWaysOut), std::end(kWaysOut), [&](const char* way_out) {
      return status.message().find(way_out) != std::string::npos;
    })) << status.message();
  }
}

TEST(ModelConfig, RefusalsNameFieldFoundAndAccepted) {
  const RefusalCase cases[] = {
      {"llama",
       R"("hidden_act":"gelu")",
       StatusCode::kUnsupported,
       {"\"hidden_act\"", "found \"gelu\"", "accepted: \"silu\""}},
      {"mixtral", "", StatusCode::kUnsupported, {"\"model_type\"", "\"mixtral\"", "qwen3"}},
      {"llama",
       R"("architectures":["GPT2LMHeadModel"])",
       StatusCode::kUnsupported,
       {"\"architectures\"", "\"GPT2LMHeadModel\"", "LlamaForCausalLM"}},
      {"llama",
       R"("architectures":["Qwen2ForCausalLM"])",
       StatusCode::kInvalidArgument,
       {"\"model_type\"", "\"llama\"", "\"qwen2\""}},
      {"llama",
       R"("num_experts":8)",
       StatusCode::kUnsupported,
       {"\"num_experts\"", "8", "nothing"}},
      {"llama",
       R"("is_encoder_decoder":true)",
       StatusCode::kUnsupported,
       {"\"is_encoder_decoder\"", "true", "false"}},
      {"llama",
       R"("num_key_value_heads":5)",
       StatusCode::kInvalidArgument,
       {"\"num_key_value_heads\"", "found 5", "divisor"}},
      {"llama",
       R"("num_key_value_heads":"many")",
       StatusCode::kInvalidArgument,
       {"\"num_key_value_heads\"", "found \"many\"", "an integer from 1"}},
      {"llama",
       R"("rms_norm_eps":-1)",
       StatusCode::kInvalidArgument,
       {"\"rms_norm_eps\"", "found -1", "a number from 0"}},
      {"llama", R"("head_dim":3)", StatusCode::kUnsupported, {"\"head_dim\"", "3", "even"}},
      {"llama",
       R"("live_vocab_size":101)",
       StatusCode::kInvalidArgument,
       {"\"live_vocab_size\"", "101", "1 to 100"}},
      {"llama",
       R"("torch_dtype":"float8_e4m3fn")",
       StatusCode::kUnsupported,
       {"\"torch_dtype\"", "float8_e4m3fn", "bfloat16"}},
      {"llama",
       R"("rope_scaling":{"type":"dynamic","factor":2})",
       StatusCode::kUnsupported,
       {"\"rope_scaling.type\"", "\"dynamic\"", "yarn"}},
      {"llama",
       R"("rope_scaling":{"rope_type":"longrope","factor":2})",
       StatusCode::kUnsupported,
       {"\"rope_scaling.rope_type\"", "\"longrope\"", "yarn"}},
      {"llama",
       R"("rope_scaling":{"type":"linear"})",
       StatusCode::kInvalidArgument,
       {"\"rope_scaling.factor\"", "nothing", "needs"}},
      {"llama",
       R"("rope_scaling":{"type":"llama3","factor":8})",
       StatusCode::kInvalidArgument,
       {"\"rope_scaling.original_max_position_embeddings\"", "nothing", "needs"}},
      {"llama",
       R"("partial_rotary_factor":0.5)",
       StatusCode::kUnsupported,
       {"\"partial_rotary_factor\"", "0.5", "1"}},
      {"llama",
       R"("rope_theta":1.5,"rope_parameters":{"rope_theta":2})",
       StatusCode::kInvalidArgument,
       {"\"rope_parameters.rope_theta\"", "2", "1.5"}},
  };
  expect_refused(cases);
}

TEST(ModelConfig, RefusalsOfQuantizationSayWhatIsAccepted) {
  const RefusalCase cases[] = {
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","bits":3})",
       StatusCode::kUnsupported,
       {"quantization_config.bits", "3", "4 or 8"}},
      {"llama",
       R"("quantization_config":{"bits":2,"desc_act":false})",
       StatusCode::kUnsupported,
       {"quantization_config.bits", "2", "4 or 8"}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","group_size":0})",
       StatusCode::kInvalidArgument,
       {"quantization_config.group_size", "0", "divisor"}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","checkpoint_format":"marlin"})",
       StatusCode::kUnsupported,
       {"checkpoint_format", "\"marlin\"", "\"gptq_v2\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","is_marlin_format":true})",
       StatusCode::kUnsupported,
       {"is_marlin_format", "true", "repacked"}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","dynamic":{"+:.*down.*":{"bits":8}}})",
       StatusCode::kUnsupported,
       {"dynamic", "+:.*down.*", "leaves layers out"}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","modules_in_block_to_quantize":[[1]]})",
       StatusCode::kInvalidArgument,
       {"modules_in_block_to_quantize", "names", "layers"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors"})",
       StatusCode::kUnsupported,
       {"config_groups", "nothing", "original bf16"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float"}}}})",
       StatusCode::kUnsupported,
       {"config_groups.g.format", "\"nvfp4-pack-quantized\"", "\"pack-quantized\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":3,"group_size":32}}}})",
       StatusCode::kUnsupported,
       {"weights.num_bits", "3", "4 or 8"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"targets":["Linear"]}}})",
       StatusCode::kUnsupported,
       {"config_groups.g.weights", "nothing", "not the activations alone"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"type":"float","strategy":"group","group_size":32}}}})",
       StatusCode::kUnsupported,
       {"weights.strategy", "\"group\"", "\"block\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"type":"float","strategy":"block","block_structure":[64,64]}}}})",
       StatusCode::kUnsupported,
       {"block_structure", "64", "[128, 128]"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"type":"int"}}}})",
       StatusCode::kUnsupported,
       {"config_groups.g.format", "\"float-quantized\"", "\"int\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["re:a{2}"],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"group_size":32}}}})",
       StatusCode::kUnsupported,
       {"ignore", "re:a{2}", "simple patterns"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","sparsity_config":{"format":"sparse-24-bitmask"},"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"group_size":32}}}})",
       StatusCode::kUnsupported,
       {"sparsity_config.format", "sparse-24-bitmask", "\"dense\""}},
      {"llama",
       R"("quantization_config":{"load_in_4bit":true})",
       StatusCode::kUnsupported,
       {"quant_method", "\"bitsandbytes\"", "original bf16"}},
      {"llama",
       R"("quantization":{"group_size":64,"bits":4})",
       StatusCode::kUnsupported,
       {"\"quantization\"", "MLX", "original bf16"}},
      {"llama",
       R"("quantization_config":{"quant_method":"quip"})",
       StatusCode::kUnsupported,
       {"quant_method", "\"quip\"", "\"compressed-tensors\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"fp8","fmt":"e5m2"})",
       StatusCode::kUnsupported,
       {"quantization_config.fmt", "\"e5m2\"", "\"e4m3\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"fp8","weight_block_size":[64,128]})",
       StatusCode::kUnsupported,
       {"weight_block_size", "64", "[128, 128]"}},
      {"llama",
       R"("quantization_config":{"quant_method":"awq","version":"gemv","group_size":16})",
       StatusCode::kInvalidArgument,
       {"quantization_config.group_size", "16", "32"}},
      {"llama",
       R"("quantization_config":{"quant_method":"awq","version":"marlin"})",
       StatusCode::kUnsupported,
       {"quantization_config.version", "\"marlin\"", "\"gemv_fast\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"awq","bits":8})",
       StatusCode::kUnsupported,
       {"quantization_config.bits", "8", "accepted: 4"}},
      {"llama",
       R"("quantization_config":{"quant_method":"awq","zero_point":false})",
       StatusCode::kUnsupported,
       {"quantization_config.zero_point", "false", "true"}},
      {"llama",
       R"("quantization_config":{"quant_method":"awq","group_size":0})",
       StatusCode::kInvalidArgument,
       {"quantization_config.group_size", "0", "divisor"}},
  };
  expect_refused(cases);
}

TEST(ModelConfig, RefusalsOfContradictoryQuantization) {
  const RefusalCase cases[] = {
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","lm_head":true})",
       StatusCode::kUnsupported,
       {"quantization_config.lm_head", "found true; accepted: false", "original bf16"}},
      {"llama",
       R"("quantization_config":{"quant_method":"gptq","pack_dtype":"int16"})",
       StatusCode::kUnsupported,
       {"quantization_config.pack_dtype", "\"int16\"", "accepted: \"int32\""}},
      {"llama",
       R"("quantization_config":{"quant_method":"fp8","activation_scheme":"block"})",
       StatusCode::kInvalidArgument,
       {"quantization_config.activation_scheme", "\"block\"", "static"}},
      {"llama",
       R"("quantization_config":{"quant_method":"compressed-tensors","quantization_status":"calibration","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"group_size":32}}}})",
       StatusCode::kUnsupported,
       {"quantization_status", "\"calibration\"", "accepted: \"compressed\" or \"frozen\""}},
  };
  expect_refused(cases);
}

TEST(ModelConfig, EveryRequiredFieldIsNamedWhenMissing) {
  for (const char* field : {"num_hidden_layers", "hidden_size", "intermediate_size",
                            "num_attention_heads", "vocab_size"}) {
    std::string text = minimal("llama", "");
    text.replace(text.find(field), 4, "gone");
    const Status status = refused(text);
    EXPECT_NE(status.message().find(field), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("found nothing"), std::string::npos) << status.message();
  }
}

TEST(ModelConfig, BrokenTextIsRefused) {
  EXPECT_EQ(refused("").code(), StatusCode::kCorrupt);
  EXPECT_EQ(refused("{").code(), StatusCode::kCorrupt);
  EXPECT_EQ(refused("[]").code(), StatusCode::kCorrupt);
  EXPECT_EQ(refused("{}").code(), StatusCode::kUnsupported);
  expect_refused(R"({"model_type":)" + std::string(1 << 20, '['));
  EXPECT_EQ(read_model_config("/nonexistent").status().code(), StatusCode::kNotFound);
}

TEST(ModelConfig, ToySpecsReadBackInBothSpellings) {
  for (const char* family : {"llama", "qwen2", "qwen3", "mistral"}) {
    for (const bool transformers5 : {false, true}) {
      ToySpec spec;
      spec.family = family;
      spec.transformers5_config = transformers5;
      spec.dtype = DType::kF16;
      spec.sliding_window = 24;
      spec.max_window_layers = 1;
      spec.tied = true;
      spec.live_vocab_size = 250;
      spec.rope_theta = 1234.5f;
      spec.rope_scaling.kind = RopeScaling::Kind::kYarn;
      spec.rope_scaling.factor = 2.5f;
      spec.rope_scaling.original_max_position = 100;
      spec.rope_scaling.mscale = 0.7f;
      const ModelConfig config = accepted(toy_config_json(spec));
      EXPECT_EQ(config.model_type, family);
      EXPECT_EQ(config.dtype, DType::kF16);
      EXPECT_EQ(config.rope_theta, 1234.5f);
      EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kYarn);
      EXPECT_EQ(config.rope_scaling.factor, 2.5f);
      EXPECT_EQ(config.rope_scaling.mscale, 0.7f);
      EXPECT_EQ(config.rms_norm_eps, spec.rms_norm_eps);
      EXPECT_EQ(config.live_vocab_size, 250);
      EXPECT_TRUE(config.tied_embeddings);
      const std::map<std::string, std::vector<int32_t>> windows = {
          {"llama", {0, 0}}, {"qwen2", {0, 24}}, {"qwen3", {0, 24}}, {"mistral", {24, 24}}};
      EXPECT_EQ(config.sliding_window, windows.at(family)) << family;
    }
  }
}

TEST(GenerationDefaults, ReadsWhatIsThere) {
  TempDir dir;
  const auto absent = read_generation_defaults(dir.path());
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(absent->sampling.temperature.has_value());
  ASSERT_TRUE(write_text(dir.path() / "generation_config.json",
                         R"({"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":-1,)"
                         R"("repetition_penalty":1.05,"presence_penalty":9,"eos_token_id":[7,8],)"
                         R"("bos_token_id":1})")
                  .ok());
  const auto defaults = read_generation_defaults(dir.path());
  ASSERT_TRUE(defaults.ok()) << defaults.status().message();
  EXPECT_EQ(defaults->do_sample, true);
  EXPECT_EQ(defaults->sampling.temperature, 0.6f);
  EXPECT_EQ(defaults->sampling.top_k, -1);
  EXPECT_EQ(defaults->sampling.min_p, std::nullopt);
  EXPECT_EQ(defaults->sampling.repetition_penalty, 1.05f);
  EXPECT_EQ(defaults->sampling.presence_penalty, std::nullopt);  // a checkpoint must not set it
  EXPECT_EQ(defaults->bos_token_id, 1);
  EXPECT_EQ(defaults->eos_token_ids, (std::vector<int32_t>{7, 8}));
  ASSERT_TRUE(write_text(dir.path() / "generation_config.json", R"({"temperature":-1})").ok());
  const auto bad = read_generation_defaults(dir.path());
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.status().message().find("generation_config.json: field \"temperature\": found -1"),
            std::string::npos)
      << bad.status().message();
}

}  // namespace
}  // namespace forerun
