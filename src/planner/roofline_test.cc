#include "planner/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "planner/rank_speculation.h"
#include "planner/speculation_costs.h"

namespace forerun {
namespace {

ModelConfig config_of(const std::string& fields) {
  auto config = parse_model_config(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
          "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,)" +
          fields + "}",
      "test");
  EXPECT_TRUE(config.ok()) << config.status().message();
  return *config;
}

ModelConfig llama_8b(const std::string& more = "") {
  return config_of(R"("num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256)" +
                   more);
}

StepCosts costs_of(const ModelConfig& config, const std::string& gpus) {
  const GpuGroup group = parse_gpus(gpus).value();
  StepCosts costs;
  add_roofline(device_work(config, group.count).value(), group, Role::kTarget, costs);
  return costs;
}

TEST(DeviceWork, CountsWhatTheConfigImplies) {
  const DeviceWork work = device_work(llama_8b(), 1).value();
  const double layer = 2.0 * 4096 * 4096 + 2.0 * 1024 * 4096 + 3.0 * 4096 * 14336;
  const double head = 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(work.weight_bytes, 2.0 * (32 * layer + head));
  EXPECT_DOUBLE_EQ(work.resident_bytes, 2.0 * (32 * layer + 2 * head));
  EXPECT_DOUBLE_EQ(work.row_flops, 2.0 * (32 * layer + head));
  EXPECT_DOUBLE_EQ(work.kv_token_bytes, 128 * 1024.0);  // 128 KiB
  EXPECT_DOUBLE_EQ(work.pair_flops, 32 * 4.0 * 4096);
}

TEST(DeviceWork, AGroupSharesItAndOddDegreesAreLedByTheFullest) {
  const DeviceWork whole = device_work(llama_8b(), 1).value();
  for (const int32_t degree : {2, 4, 8}) {
    const DeviceWork part = device_work(llama_8b(), degree).value();
    EXPECT_NEAR(part.weight_bytes * degree, whole.weight_bytes, 0.02 * whole.weight_bytes);
    EXPECT_DOUBLE_EQ(part.kv_token_bytes * degree, whole.kv_token_bytes);
  }
  // Eight KV heads over three devices: one of them has three.
  const DeviceWork third = device_work(llama_8b(), 3).value();
  EXPECT_DOUBLE_EQ(third.kv_token_bytes, whole.kv_token_bytes * 3 / 8);
  EXPECT_FALSE(device_work(llama_8b(), 9).ok());
}

TEST(DeviceWork, TiedHeadsAreReadAndInt4WeightsAreNarrow) {
  const DeviceWork tied = device_work(llama_8b(R"(, "tie_word_embeddings": true)"), 1).value();
  EXPECT_DOUBLE_EQ(tied.weight_bytes, device_work(llama_8b(), 1).value().weight_bytes);
  EXPECT_DOUBLE_EQ(tied.resident_bytes, tied.weight_bytes);
  const DeviceWork int4 =
      device_work(llama_8b(R"(, "quantization_config": {"quant_method": "awq", "bits": 4,
        "group_size": 128, "zero_point": true, "version": "gemm"})"),
                  1)
          .value();
  EXPECT_NEAR(int4.weight_bytes, 4.7e9, 0.1e9);
}

TEST(DeviceWork, RefusesAttentionWindowsByTheirLength) {
  ModelConfig config = llama_8b();
  config.sliding_window.back() = 4096;
  const auto work = device_work(config, 1);
  ASSERT_FALSE(work.ok());
  EXPECT_NE(work.status().message().find("4096"), std::string::npos);
}

// Milliseconds of 8B bf16 on one H200, with one sequence and 2,000 tokens of context.
TEST(Roofline, IsWhatOneH200Measures) {
  const StepCosts costs = costs_of(llama_8b(), "h200");
  const std::array<std::pair<int32_t, double>, 7> forwards = {{{1, 3.918},
                                                               {8, 4.099},
                                                               {32, 4.634},
                                                               {128, 7.308},
                                                               {256, 10.111},
                                                               {512, 18.013},
                                                               {1024, 31.898}}};
  for (const auto& [rows, ms] : forwards) {
    const double predicted = 1e3 * costs.seconds(Role::kTarget, even_load(1, rows, 2000));
    EXPECT_NEAR(predicted, ms, 0.15 * ms) << rows << " rows";
  }
}

// attention_cuda_bench --batches: attention of one layer; the additional time of a Step for a
// larger cache.
TEST(Roofline, ReadsLargeCachesAsFastAsOneH200) {
  const StepCosts costs = costs_of(llama_8b(), "h200");
  const auto attention = [&](int32_t sequences, int32_t rows) {
    return costs.seconds(Role::kTarget, even_load(sequences, rows, 32000)) -
           costs.seconds(Role::kTarget, even_load(sequences, rows, 0));
  };
  EXPECT_NEAR(attention(24, 1), 32 * 730e-6, 0.1 * 32 * 730e-6);
  EXPECT_NEAR(attention(128, 1), 32 * 3656e-6, 0.1 * 32 * 3656e-6);
  EXPECT_NEAR(attention(24, 8), 32 * 806e-6, 0.1 * 32 * 806e-6);
  EXPECT_NEAR(attention(128, 8), 32 * 3818e-6, 0.1 * 32 * 3818e-6);
}

// The additional time of a plain Step for 64 more sequences of 32,000 tokens in MagicDec's tables 3
// (c) and 6.
TEST(Roofline, ReadsCachesAsFastAsTheMachinesOfMagicDec) {
  for (const auto& [gpus, ms] : {std::pair{"a100:8", 47.24 - 26.99}, {"h100:8", 26.07 - 14.84}}) {
    const StepCosts costs = costs_of(llama_8b(), gpus);
    const double more =
        plain_step_seconds(costs, {128, 32000}) - plain_step_seconds(costs, {64, 32000});
    EXPECT_NEAR(1e3 * more, ms, 0.08 * ms) << gpus;
  }
}

TEST(Roofline, AGroupIsFasterButPaysForItsSums) {
  const StepCosts one_gpu = costs_of(llama_8b(), "h200");
  const StepCosts two_gpus = costs_of(llama_8b(), "h200:2");
  const double ratio =
      plain_step_seconds(one_gpu, {24, 32000}) / plain_step_seconds(two_gpus, {24, 32000});
  EXPECT_GT(ratio, 1.8);
  EXPECT_LT(ratio, 2.0);
  // Over PCIe more of it is lost.
  const double over_pcie = plain_step_seconds(one_gpu, {24, 32000}) /
                           plain_step_seconds(costs_of(llama_8b(), "h200,link=32:2"), {24, 32000});
  EXPECT_LT(over_pcie, ratio);
  EXPECT_GT(over_pcie, 1.0);
}

TEST(ParseGpus, ReadsNamesCountsAndDescriptions) {
  const GpuGroup two = parse_gpus("H200:2").value();
  EXPECT_EQ(two.gpu.name, "h200");
  EXPECT_EQ(two.count, 2);
  EXPECT_EQ(parse_gpus("rtx4090").value().count, 1);
  const GpuGroup described =
      parse_gpus("bandwidth=3350,tflops=989,memory=80,link=450,efficiency=0.8:4").value();
  EXPECT_EQ(described.count, 4);
  EXPECT_DOUBLE_EQ(described.gpu.bandwidth_bytes_per_s, 3350e9);
  EXPECT_DOUBLE_EQ(described.gpu.matrix_flops_per_s, 989e12);
  EXPECT_DOUBLE_EQ(described.gpu.memory_bytes, 80e9);
  EXPECT_DOUBLE_EQ(described.gpu.link_bytes_per_s, 450e9);
  EXPECT_DOUBLE_EQ(described.gpu.efficiency.attention, 0.8);
  const HostSeconds host = parse_gpus("h100,layer=12,sequence=3,step=0,round=50").value().gpu.host;
  EXPECT_DOUBLE_EQ(host.layer, 12e-6);
  EXPECT_DOUBLE_EQ(host.sequence, 3e-6);
  EXPECT_DOUBLE_EQ(host.draft_sequence, 3e-6);
  EXPECT_EQ(host.step, 0.0);
  EXPECT_DOUBLE_EQ(host.round, 50e-6);
  const GpuGroup altered = parse_gpus("h100,memory=94").value();
  EXPECT_DOUBLE_EQ(altered.gpu.memory_bytes, 94e9);
  EXPECT_DOUBLE_EQ(altered.gpu.bandwidth_bytes_per_s, 3.35e12);
}

TEST(ParseGpus, RefusesWithWhatIsAccepted) {
  const std::array<std::pair<const char*, const char*>, 14> refused = {
      {{"h2000", "h200"},
       {"", "h200"},
       {"h200:0", "1 to 8"},
       {"h200:9", "1 to 8"},
       {"h200:two", "1 to 8"},
       {"h200,a100", "found \"a100\" after the first comma; accepted: one name, then fields"},
       {"h200,memory=-3", "above 0"},
       {"h200,memory=nan", "above 0"},
       {"h200,memory=0", "above 0"},
       {"h200,layer=-1", "from 0 (us)"},
       {"h200,efficiency=1.5", "to 1"},
       {"h200,cores=3", "bandwidth"},
       {"bandwidth=100,memory=80", "all three"},
       {"bandwidth=100,tflops=80,memory=80:2", "link"}}};
  for (const auto& [text, said] : refused) {
    const auto group = parse_gpus(text);
    ASSERT_FALSE(group.ok()) << text;
    EXPECT_EQ(group.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(group.status().message().find(said), std::string::npos) << group.status().message();
  }
}

ModelConfig llama_1b() {
  return config_of(
      R"("hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "vocab_size": 128256, "tie_word_embeddings": true)");
}

// 24 sequences of 32,000 tokens, 8B bf16 on one H200, views of 2,049 tokens, attention at three
// shares of the 4.55 TB/s that its memory reaches. Best speed-up of self-drafting, of a 1B draft,
// and of both as a hierarchy. The target accepts 0.89 of its view's tokens and 0.66 of the draft's;
// the view accepts those too, and where the view is wrong it makes the same mistake as the draft.
TEST(Hierarchy, PromisesWhatItsPartsDo) {
  struct Expected {
    double attention, self, draft, hierarchy;
  };
  for (const auto& [attention, self, draft, hierarchy] :
       {Expected{0.61, 2.46, 2.11, 2.69}, Expected{0.75, 2.24, 2.03, 2.47},
        Expected{0.85, 2.12, 1.98, 2.33}}) {
    GpuGroup h200 = parse_gpus("h200").value();
    h200.gpu.efficiency.attention = attention * 4550e9 / h200.gpu.bandwidth_bytes_per_s;
    StepCosts costs;
    add_roofline(device_work(llama_8b(), 1).value(), h200, Role::kTarget, costs);
    add_roofline(device_work(llama_1b(), 1).value(), h200, Role::kDraft, costs);
    const auto best = [&](const DraftOption& option, double acceptance) {
      return best_speculation(costs, {24, 32000}, {{.draft = option, .acceptance = acceptance}});
    };
    const DraftOption view = {.budget_tokens = 2049};
    EXPECT_NEAR(best(view, 0.89).speedup, self, 0.04 * self);
    EXPECT_NEAR(best({.model = Role::kDraft, .budget_tokens = 512}, 0.66).speedup, draft,
                0.04 * draft);
    const auto both = [&](double shared) {
      DraftOption option = view;
      option.checks = {.guesses = 3, .by_model = true, .budget_tokens = 512, .acceptance = shared};
      return best(option, 0.89);
    };
    const SpeculationForecast made = both(0.66 + 0.11);
    EXPECT_NEAR(made.speedup, hierarchy, 0.04 * hierarchy);
    EXPECT_GT(made.times.drafted, 2.4);
    EXPECT_GE(made.gamma, 6);
    // If the view accepts no more than the target does, it still beats either half.
    EXPECT_GT(both(0.66).speedup, std::max(self, draft));
  }
}

}  // namespace
}  // namespace forerun
