// Tests a whole decoder on one GPU and in two to four parts (two per GPU if there are too few
// GPUs). Logits must be near the CPU's, and bits must not depend on how a Step is cut, on slots,
// other rows or trees. Toy models of every family and format.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/layouts/toy_layouts.h"
#include "checkpoint/testing.h"
#include "device/cuda/cuda_testing.h"
#include "model/cuda/load_decoder.h"
#include "model/cuda/step_block.h"
#include "model/decoder_checks_rig.h"
#include "model/shard_plan.h"
#include "model/testing.h"
#include "sampling/edit_list.h"
#include "sampling/row_query.h"
#include "sampling/sampler.h"
#include "step/hash_constraint_rig.h"

namespace forerun {
namespace {

constexpr int32_t kVocab = 96;
constexpr int32_t kTokens = 1100;
constexpr int64_t kKvBlocks = 40;

struct Case {
  const char* name;
  const char* family;
  int32_t hidden, intermediate, heads, kv_heads, head_dim;
  int32_t window;
  ToySpec::Quantization quantization;
  int32_t group;
  DType dtype;
  bool tied;
  std::vector<BlockFormat> gguf = {};  // formats of a GGUF file's weights in turn
  const char* layout = nullptr;        // replaces `quantization`
};

using enum BlockFormat;
constexpr auto kPlain = ToySpec::Quantization::kNone;
constexpr auto kAwq = ToySpec::Quantization::kAwq;
const Case kCases[] = {
    {"llama_bf16", "llama", 256, 512, 8, 2, 32, 0, kPlain, 0, DType::kBf16, false},
    {"llama_f16_tied", "llama", 64, 96, 4, 4, 16, 0, kPlain, 0, DType::kF16, true},
    {"llama_int4", "llama", 256, 384, 4, 2, 64, 0, kAwq, 128, DType::kF16, false},
    {"llama_int4_group32", "llama", 128, 256, 4, 2, 32, 0, kAwq, 32, DType::kF16, false},
    {"qwen2_int4_wide", "qwen2", 1024, 2048, 8, 2, 128, 0, kAwq, 128, DType::kF16, false},
    {"qwen3_bf16", "qwen3", 256, 512, 4, 1, 128, 0, kPlain, 0, DType::kBf16, true},
    {"mistral_window", "mistral", 128, 256, 8, 2, 64, 600, kPlain, 0, DType::kBf16, false},
    {"mistral_head80", "mistral", 320, 512, 4, 2, 80, 100, kPlain, 0, DType::kBf16, false},
    {"llama_head256", "llama", 256, 256, 2, 1, 256, 0, kPlain, 0, DType::kBf16, false},
    {"llama_group16", "llama", 256, 256, 16, 1, 64, 0, kPlain, 0, DType::kBf16, false},
    {"llama_f32", "llama", 96, 160, 3, 1, 32, 0, kPlain, 0, DType::kF32, false},
    // On two GPUs, both have the KV head, and the second one's query heads begin within a vector.
    // In other cases one GPU has no heads, or no MLP.
    {"qwen2_five_heads_of_20", "qwen2", 128, 320, 5, 1, 20, 0, kPlain, 0, DType::kBf16, false},
    {"llama_int4_two_heads", "llama", 128, 256, 2, 1, 64, 0, kAwq, 128, DType::kF16, false},
    {"llama_int4_narrow_mlp", "llama", 128, 128, 4, 2, 64, 0, kAwq, 128, DType::kF16, true},
    // Kernels read these as they are stored; on several GPUs some parts are half a block wide.
    {"llama_q8_0", "llama", 256, 512, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ8_0}},
    {"qwen2_q4_0", "qwen2", 256, 512, 8, 2, 64, 0, kPlain, 0, DType::kF32, true, {kQ4_0}},
    {"qwen3_q4_1", "qwen3", 256, 512, 4, 2, 128, 0, kPlain, 0, DType::kF32, false, {kQ4_1}},
    {"llama_q4_k", "llama", 512, 1024, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ4_K}},
    {"llama_q5_k", "llama", 512, 1024, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ5_K}},
    {"llama_q6_k", "llama", 256, 512, 8, 2, 64, 0, kPlain, 0, DType::kF32, false, {kQ6_K}},
    {"qwen2_q5_0", "qwen2", 256, 512, 8, 2, 64, 0, kPlain, 0, DType::kF32, true, {kQ5_0}},
    {"llama_q5_1", "llama", 256, 512, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ5_1}},
    {"llama_iq4_nl", "llama", 256, 512, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kIq4Nl}},
    {"qwen3_iq4_xs", "qwen3", 256, 512, 4, 2, 128, 0, kPlain, 0, DType::kF32, false, {kIq4Xs}},
    {"llama_mxfp4", "llama", 192, 320, 4, 2, 64, 0, kPlain, 0, DType::kF32, false, {kMxfp4}},
    {"llama_q3_k", "llama", 512, 1024, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ3_K}},
    {"llama_q2_k", "llama", 512, 1024, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ2_K}},
    // Q, K and V in two and three runs; gate and up become bf16 in the second.
    {"qwen2_q4_k_m",
     "qwen2",
     512,
     1024,
     8,
     4,
     64,
     0,
     kPlain,
     0,
     DType::kF32,
     false,
     {kQ6_K, kQ4_K, kQ4_K, kQ6_K, kQ4_K, kQ4_K, kQ4_K, kQ6_K}},
    {"llama_mixed", "llama", 256, 512, 8, 4, 64, 0, kPlain, 0, DType::kF32, false, {kQ4_K, kQ6_K}},
    {"llama_fp8",
     "llama",
     256,
     384,
     4,
     2,
     64,
     0,
     kPlain,
     0,
     DType::kBf16,
     false,
     {},
     "float_channel"},
    {"qwen3_fp8_blocks",
     "qwen3",
     256,
     512,
     8,
     2,
     64,
     0,
     kPlain,
     0,
     DType::kBf16,
     false,
     {},
     "fp8_block"},
    {"llama_gptq", "llama", 256, 512, 8, 2, 64, 0, kPlain, 0, DType::kBf16, false, {}, "gptq"},
    {"qwen2_gptq_symmetric",
     "qwen2",
     256,
     512,
     8,
     2,
     64,
     0,
     kPlain,
     0,
     DType::kBf16,
     false,
     {},
     "gptq_middle_zeros"},
    {"llama_ct_int8",
     "llama",
     256,
     512,
     8,
     2,
     64,
     0,
     kPlain,
     0,
     DType::kBf16,
     false,
     {},
     "packed_8"},
    {"qwen3_awq_channel",
     "qwen3",
     256,
     512,
     8,
     2,
     64,
     0,
     kPlain,
     0,
     DType::kBf16,
     false,
     {},
     "gemm_channel"},
};

// Returns the root mean square of the difference over that of the expected values; infinite if a
// number is not finite or missing.
double relative_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return kInfinite;
  double square = 0;
  double norm = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return kInfinite;
    const double difference = static_cast<double>(found[i]) - expected[i];
    square += difference * difference;
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(square / norm);
}

class DecoderCuda : public testing::TestWithParam<std::tuple<int32_t, Case>> {
 protected:
  void SetUp() override {
    const auto& [degree, test_case] = GetParam();
    SKIP_WITHOUT_GPUS((degree + 1) / 2);
    const int32_t gpus = cuda::gpus_of_sm90();
    for (int32_t rank = 0; rank < degree; ++rank) devices_.push_back(rank % gpus);
    ToySpec spec;
    spec.family = test_case.family;
    spec.hidden_size = test_case.hidden;
    spec.intermediate_size = test_case.intermediate;
    spec.num_heads = test_case.heads;
    spec.num_kv_heads = test_case.kv_heads;
    spec.head_dim = test_case.head_dim;
    spec.vocab_size = kVocab;
    spec.max_position = 2048;
    spec.sliding_window = test_case.window;
    spec.quantization = test_case.quantization;
    spec.awq_group_size = test_case.group > 0 ? test_case.group : 32;
    spec.dtype = test_case.dtype;
    spec.tied = test_case.tied;
    spec.gguf_formats = test_case.gguf;
    if (test_case.layout != nullptr) spec.layout = &toy_layout(test_case.layout);
    if (test_case.gguf.empty()) {
      const Status written = write_toy_checkpoint(path_, spec);
      ASSERT_TRUE(written.ok()) << written.message();
    } else {
      path_ /= "toy.gguf";
      toy_gguf(spec).write(path_);
    }
    tokens_ = toy_tokens(kTokens, kVocab);
    auto checkpoint = Checkpoint::open(path_);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    checkpoint_ = std::make_unique<Checkpoint>(std::move(*checkpoint));
    if (!make_shard_plan(checkpoint_->config(), degree, kVocab).ok()) {
      GTEST_SKIP() << "too small for " << degree << " parts";
    }
    cuda::DecoderCudaOptions options;
    options.devices = devices_;
    options.kv_blocks = kKvBlocks;
    double told = 0;
    options.progress = [&told](double fraction) {
      EXPECT_GE(fraction, told);
      told = fraction;
    };
    auto decoder = cuda::load_decoder_cuda(*checkpoint_, options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    decoder_ = std::move(*decoder);
    EXPECT_EQ(told, 1.0);
  }
  static std::vector<int32_t> blocks() { return SequenceDriver::blocks_for(kTokens); }

  TempDir dir_;
  std::filesystem::path path_ = dir_.path();
  std::vector<int32_t> devices_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Decoder> decoder_;
};

TEST_P(DecoderCuda, LogitsAreTheCpus) {
  CpuDecoderOptions options;
  options.kv_blocks = kKvBlocks;
  auto cpu = LoadedDecoder::open(path_, 2, options);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  const std::vector<float> expected = run_tokens(*cpu->decoder, tokens_, 0, 256, blocks());
  const std::vector<float> found = run_tokens(*decoder_, tokens_, 0, 256, blocks());
  EXPECT_LT(relative_difference(found, expected), 2e-2);
}

TEST_P(DecoderCuda, ViewsAreTheCpus) {
  if (std::get<1>(GetParam()).window > 0) GTEST_SKIP() << "a window and a view exclude each other";
  CpuDecoderOptions options;
  options.kv_blocks = kKvBlocks;
  auto cpu = LoadedDecoder::open(path_, 2, options);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  const std::vector<float> expected = logits_through_a_view(*cpu->decoder, tokens_, 3);
  EXPECT_LT(relative_difference(logits_through_a_view(*decoder_, tokens_, 20), expected), 2e-2);
}

TEST_P(DecoderCuda, GatheredKvIsTheKv) {
  if (std::get<1>(GetParam()).window > 0) GTEST_SKIP() << "a window and a view exclude each other";
  if (!decoder_->selects_kv()) GTEST_SKIP() << "too few rows a pass where parts share a GPU";
  expect_gathered_kv_is_the_kv(*decoder_, tokens_, 20);
}

TEST_P(DecoderCuda, RowsPerStepAndBlocks) {
  const std::vector<float> expected = run_tokens(*decoder_, tokens_, 0, 1, blocks());
  std::vector<int32_t> scattered = SequenceDriver::blocks_for(kTokens, 20);
  std::reverse(scattered.begin(), scattered.end());
  for (const int64_t rows : {2, 8, 9, 33, 64, 1024}) {
    EXPECT_TRUE(run_tokens(*decoder_, tokens_, 0, rows, scattered) == expected) << rows << " rows";
  }
}

TEST_P(DecoderCuda, TreesAndCommits) {
  // The tree extends into the next tile of 64 positions.
  expect_trees_and_commits(*decoder_, tokens_, /*depth=*/25, /*first_block=*/20);
}

TEST_P(DecoderCuda, UnwantedRowsAndOthers) {
  expect_unwanted_rows_and_others(*decoder_, tokens_, /*first_block=*/20);
}

// A rounded head must be near the stored one, and rows must keep their bits beside any others.
TEST_P(DecoderCuda, ARoundedHeadIsNearAndKeepsBits) {
  const std::vector<float> expected = run_tokens(*decoder_, tokens_, 0, 64, blocks());
  struct Rounded {
    WeightOverride weights;
    int32_t group;
    // For normal weights, 15 steps between the extremes of 128 weights give an error of 0.1, 254
    // steps for 64 weights an error of 0.005.
    double least, most;
  };
  for (const Rounded& rounding : {Rounded{WeightOverride::kInt8Head, 64, 1e-4, 0.015},
                                  {WeightOverride::kInt4Head, 128, 1e-3, 0.2}}) {
    const char* const name = weight_override_name(rounding.weights);
    if (checkpoint_->config().hidden_size % rounding.group != 0)
      continue;  // the head stays as it is stored
    cuda::DecoderCudaOptions options;
    options.devices = devices_;
    options.kv_blocks = kKvBlocks;
    options.weights = rounding.weights;
    const auto rounded = cuda::load_decoder_cuda(*checkpoint_, options);
    ASSERT_TRUE(rounded.ok()) << rounded.status().message();
    const std::vector<float> found = run_tokens(**rounded, tokens_, 0, 64, blocks());
    const double difference = relative_difference(found, expected);
    EXPECT_LT(difference, rounding.most) << name;
    EXPECT_GT(difference, rounding.least) << name;
    for (const int64_t rows : {1, 9, 33}) {
      EXPECT_TRUE(run_tokens(**rounded, tokens_, 0, rows, blocks()) == found)
          << name << ", " << rows << " rows";
    }
  }
}

// `count` rows want logits, and the Step's last pass (of 1,024 rows) has summaries of them.
TEST_P(DecoderCuda, SummariesStandForTheLogits) {
  for (const int32_t count : {1, 9, 100, 300, 1033}) {
    const std::vector<int32_t> table = blocks();
    Step step;
    step.sequences.push_back({table.data()});
    SequenceDriver::add_prefix_rows(step, 0, std::span(tokens_).first(static_cast<size_t>(count)),
                                    0, true);
    ASSERT_TRUE(decoder_->forward(step).ok());
    const std::vector<float> expected = copy_logits(*decoder_);
    ASSERT_EQ(decoder_->logits(0).values.dim(0), count);
    std::vector<SamplingParams> params(static_cast<size_t>(count));
    std::vector<RowContext> contexts(params.size());
    std::vector<RowQuery> queries;
    const HashConstraint constraint(17, 0);
    const TokenConstraint::State start = constraint.start();
    const std::vector<TokenId> path = {11, 3, 11};
    TokenCounts history;
    for (TokenId token = 0; token < 40; ++token) history.add(token * 3 % kVocab, token < 9);
    EditList edits;
    for (size_t row = 0; row < params.size(); ++row) {
      params[row].temperature = row % 4 == 0 ? 0.0f : 0.7f;
      params[row].seed = row + 3;
      if (row % 5 == 1) params[row].top_k = 7;
      if (row % 7 == 2) params[row].top_p = 0.8f;
      if (row % 6 == 3) params[row].logprobs = 3;
      contexts[row].params = &params[row];
      contexts[row].position = static_cast<int32_t>(row) + 1;
      contexts[row].history = &history;
      if (row % 9 == 4) params[row].logit_bias = {{2, 1.5f}, {kVocab - 1, -50.0f}};
      if (row % 10 == 6) params[row].repetition_penalty = 1.4f;
      if (row % 11 == 7) params[row].frequency_penalty = 0.2f;
      if (row % 4 == 0) contexts[row].path = path;
      if (row % 3 == 0 && params[row].logprobs < 0) {
        contexts[row].constraint = &constraint;
        contexts[row].constrained = &start;
      }
      if (is_adjusted(contexts[row])) params[row].logprobs = -1;
      queries.push_back(sample_query(contexts[row], kVocab));
      if (is_adjusted(contexts[row])) queries.back().edits = edits.add(contexts[row]);
      if (row % 8 == 7) queries.back().kinds = RowQuery::kLogits;
    }
    const Status ran = decoder_->forward_summarized(step, queries, edits, {});
    ASSERT_TRUE(ran.ok()) << ran.message();
    const LogitsPart part = decoder_->logits(0);
    ASSERT_NE(part.on_device, nullptr);
    SamplerScratch scratch;
    int summarized = 0;
    for (int32_t row = 0; row < count; ++row) {
      const RowContext& context = contexts[static_cast<size_t>(row)];
      const float* const whole = expected.data() + static_cast<size_t>(row) * kVocab;
      LogitsRow on_device(std::span(part.values.row(row), size_t{kVocab}));
      on_device.on_device = part.on_device;
      on_device.device_row = row;
      summarized += on_device.summary() != nullptr ? 1 : 0;
      SampledToken found, drawn;
      std::vector<Candidate> found_others, others;
      ASSERT_TRUE(sample_token(on_device, context, scratch, &found, &found_others).ok());
      ASSERT_TRUE(
          sample_token(std::span(whole, size_t{kVocab}), context, scratch, &drawn, &others).ok());
      EXPECT_EQ(found.token, drawn.token) << row;
      EXPECT_EQ(found.logprob, drawn.logprob) << row;
      ASSERT_EQ(found_others.size(), others.size()) << row;
      for (size_t i = 0; i < others.size(); ++i) {
        EXPECT_EQ(found_others[i].token, others[i].token) << row;
        EXPECT_EQ(found_others[i].logprob, others[i].logprob) << row;
      }
      ASSERT_TRUE(on_device.fetch().ok());
      EXPECT_TRUE(std::equal(whole, whole + kVocab, part.values.row(row))) << row;
    }
    const int32_t last_pass = count % cuda::kMaxPassRows;
    if (std::set<int32_t>(devices_.begin(), devices_.end()).size() == devices_.size()) {
      EXPECT_EQ(summarized, last_pass - last_pass / 8) << count;
    } else {
      EXPECT_GT(summarized, 0) << count;  // passes are shorter, and no sums are known
    }
  }
}

// Each layer is a stage: hidden rows pass through the host, and no bit may change.
TEST_P(DecoderCuda, StagesAreTheWhole) {
  const auto ranges = cut_layers(std::vector<int32_t>{1, 1}, checkpoint_->config());
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  std::vector<std::unique_ptr<Decoder>> stages;
  std::vector<Decoder*> chained;
  int64_t kv_bytes = 0;
  for (const LayerRange& range : *ranges) {
    cuda::DecoderCudaOptions options;
    options.devices = devices_;
    options.layers = range;
    options.kv_blocks = kKvBlocks;
    auto stage = cuda::load_decoder_cuda(*checkpoint_, options);
    ASSERT_TRUE(stage.ok()) << stage.status().message();
    EXPECT_EQ((*stage)->layers(), range);
    kv_bytes += (*stage)->kv_block_bytes();
    stages.push_back(std::move(*stage));
    chained.push_back(stages.back().get());
  }
  EXPECT_EQ(kv_bytes, decoder_->kv_block_bytes());
  ChainedStages chain(chained);
  for (const int64_t rows : {1, 9, 64, 1100}) {
    const std::vector<float> expected = run_tokens(*decoder_, tokens_, 0, rows, blocks());
    EXPECT_TRUE(run_tokens(chain, tokens_, 0, rows, blocks()) == expected) << rows << " rows";
  }
  expect_trees_and_commits(chain, tokens_, /*depth=*/25, /*first_block=*/20);
  expect_unwanted_rows_and_others(chain, tokens_, /*first_block=*/20);
}

TEST_P(DecoderCuda, RefusesWhatDoesNotFit) {
  cuda::DecoderCudaOptions options;
  options.devices = devices_;
  options.kv_blocks = int64_t{1} << 24;
  const auto refused = cuda::load_decoder_cuda(*checkpoint_, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  for (const int32_t device : devices_) {
    EXPECT_NE(refused.status().message().find("cuda:" + std::to_string(device) + ": weights"),
              std::string::npos)
        << refused.status().message();
  }
  options.kv_blocks = 1;
  options.devices.back() = 63;
  EXPECT_EQ(cuda::load_decoder_cuda(*checkpoint_, options).status().code(), StatusCode::kNotFound);
  Step step;
  const std::vector<int32_t> table = blocks();
  step.sequences.push_back({table.data()});
  step.rows.push_back({.token = kVocab, .visible = 1, .boundary = 1});
  EXPECT_EQ(decoder_->forward(step).code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderCuda,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::ValuesIn(kCases)),
                         [](const auto& param_info) {
                           return std::get<1>(param_info.param).name + std::string("_on_") +
                                  std::to_string(std::get<0>(param_info.param));
                         });

}  // namespace
}  // namespace forerun
