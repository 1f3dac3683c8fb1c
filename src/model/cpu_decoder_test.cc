// Compares CpuDecoder with the reference forward pass on toy checkpoints of every family, and
// checks its errors.
#include "model/cpu_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "model/decoder_checks_rig.h"
#include "model/reference_decoder.h"
#include "model/testing.h"

namespace forerun {
namespace {

std::vector<int32_t> random_tokens(int32_t count, int32_t vocab) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345;
  for (int32_t index = 0; index < count; ++index) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

// Returns max |a - b| over the root mean square of b; infinite if a is not finite.
template <class T>
double relative_difference(const std::vector<float>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0.0;
  double squares = 0.0;
  for (size_t index = 0; index < b.size(); ++index) {
    if (!std::isfinite(a[index])) return INFINITY;
    worst = std::max(worst, std::fabs(static_cast<double>(a[index]) - b[index]));
    squares += static_cast<double>(b[index]) * b[index];
  }
  return worst / std::sqrt(squares / static_cast<double>(b.size()));
}

CpuDecoderOptions f32_options() {
  CpuDecoderOptions options;
  options.activation = Activation::kF32;
  options.kv_blocks = 8;
  return options;
}

LoadedDecoder open_toy(const TempDir& dir, const ToySpec& spec, CpuDecoderOptions options,
                       int32_t threads = 2) {
  const Status written = write_toy_checkpoint(dir.path(), spec);
  EXPECT_TRUE(written.ok()) << written.message();
  auto loaded = LoadedDecoder::open(dir.path(), threads, std::move(options));
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : LoadedDecoder();
}

std::vector<float> logits_of(const LoadedDecoder& loaded, int32_t count, int64_t rows_per_step) {
  const std::vector<int32_t> tokens = random_tokens(count, loaded.decoder->config().vocab_size);
  SequenceDriver sequence(loaded.decoder.get(), {3, 6, 0, 5});
  auto logits = sequence.run(tokens, 0, rows_per_step);
  EXPECT_TRUE(logits.ok()) << logits.status().message();
  return logits.ok() ? std::move(*logits) : std::vector<float>();
}

struct FamilyToy {
  std::string name;
  ToySpec spec;
};

std::vector<FamilyToy> family_toys() {
  std::vector<FamilyToy> all;
  ToySpec spec;
  all.push_back({"llama", spec});
  spec.dtype = DType::kBf16;
  spec.tied = true;
  all.push_back({"llama_tied_bf16", spec});
  spec = {};
  spec.attention_bias = spec.mlp_bias = true;
  spec.dtype = DType::kF16;
  spec.num_kv_heads = 1;
  all.push_back({"llama_biases_f16", spec});
  spec = {};
  spec.rope_scaling.kind = RopeScaling::Kind::kLinear;
  spec.rope_scaling.factor = 4.0f;
  spec.num_kv_heads = 4;
  all.push_back({"llama_linear_rope", spec});
  spec = {};
  spec.family = "qwen2";
  spec.num_layers = 3;
  spec.sliding_window = 40;
  spec.max_window_layers = 1;
  all.push_back({"qwen2_window_from_layer_1", spec});
  spec = {};
  spec.family = "qwen3";
  spec.head_dim = 24;
  spec.tied = true;
  all.push_back({"qwen3_head_dim", spec});
  spec = {};
  spec.family = "mistral";
  spec.sliding_window = 50;
  spec.num_heads = 6;
  spec.num_kv_heads = 2;
  spec.head_dim = 8;
  all.push_back({"mistral_window", spec});
  return all;
}

class Families : public testing::TestWithParam<FamilyToy> {};

TEST_P(Families, MatchTheReferenceForward) {
  const TempDir dir;
  const LoadedDecoder loaded = open_toy(dir, GetParam().spec, f32_options());
  ASSERT_NE(loaded.decoder, nullptr);
  constexpr int32_t kTokens = 140;
  const std::vector<double> expected =
      reference_logits(*loaded.checkpoint, random_tokens(kTokens, GetParam().spec.vocab_size));
  EXPECT_LE(relative_difference(logits_of(loaded, kTokens, kTokens), expected), 2e-5);
  EXPECT_LE(relative_difference(logits_of(loaded, kTokens, 1), expected), 2e-5);
}

// A row's position does not depend on the tokens that it attends to.
TEST(CpuDecoder, RowsThroughAViewMatchTheReference) {
  const TempDir dir;
  ToySpec spec;
  spec.num_layers = 3;
  const LoadedDecoder loaded = open_toy(dir, spec, f32_options());
  ASSERT_NE(loaded.decoder, nullptr);
  constexpr size_t kRows = 3 * 256;
  const std::vector<int32_t> tokens = random_tokens(253, 256);
  const auto last_rows = [&](const UnseenPositions& unseen) {
    std::vector<double> logits = reference_logits(*loaded.checkpoint, tokens, unseen);
    logits.erase(logits.begin(), logits.end() - kRows);
    return logits;
  };
  const std::vector<float> found = logits_through_a_view(*loaded.decoder, tokens, 2);
  EXPECT_LE(relative_difference(found, last_rows({250, 64, 192})), 2e-5);
  EXPECT_GT(relative_difference(found, last_rows({})), 1e-3);
}

TEST(CpuDecoder, GatheredKvIsTheKv) {
  for (const int32_t threads : {1, 3}) {
    const TempDir dir;
    ToySpec spec;
    spec.num_layers = 3;
    spec.num_kv_heads = 2;
    CpuDecoderOptions options = f32_options();
    options.kv_blocks = 16;
    if (threads > 1) options.activation = Activation::kBf16;
    const LoadedDecoder loaded = open_toy(dir, spec, options, threads);
    ASSERT_NE(loaded.decoder, nullptr);
    ASSERT_TRUE(loaded.decoder->selects_kv());
    expect_gathered_kv_is_the_kv(*loaded.decoder, random_tokens(330, 256), 6);
  }
}

TEST(CpuDecoder, RefusesSelectionsThatCannotBe) {
  const TempDir dir;
  const LoadedDecoder loaded = open_toy(dir, {}, f32_options());
  const std::vector<int32_t> table = {0, 1, 2, 3};
  const auto message_of = [&](auto spoil) {
    Step step;
    step.sequences.push_back({table.data()});
    SequenceDriver::add_prefix_rows(step, 0, random_tokens(130, 256), 0, true);
    step.selections.push_back({.first_row = 98,
                               .num_rows = 32,
                               .first_weighed = 99,
                               .weighed_step = 1,
                               .tokens = 64,
                               .chosen = 64,
                               .pooling = 5,
                               .blocks = table.data() + 3});
    spoil(step);
    return loaded.decoder->forward(step).message();
  };
  EXPECT_EQ(message_of([](Step&) {}), "");
  const std::pair<const char*, std::string> cases[] = {
      {"KV selection: found observers 98 to 130 of 130 rows; accepted: at least one row, within "
       "the "
       "Step's",
       message_of([](Step& step) { step.selections[0].num_rows = 33; })},
      {"row 99: found an observer that wants no logits",
       message_of([](Step& step) { step.rows[99].wants_logits = false; })},
      {"row 98: tokens to choose from 120; accepted: 1 to 99",
       message_of([](Step& step) { step.selections[0].tokens = 120; })},
      {"chosen tokens 65", message_of([](Step& step) { step.selections[0].chosen = 65; })},
      {"chosen tokens 128", message_of([](Step& step) { step.selections[0].chosen = 128; })},
      {"indexed tokens -1; accepted: 0 to 64", message_of([&](Step& step) {
         step.selections[0].index_blocks = table.data();
         step.selections[0].indexed = -1;
       })},
      {"row 98: an index of 64 tokens in 0 blocks; accepted: at least ",
       message_of([&](Step& step) { step.selections[0].index_blocks = table.data(); })},
  };
  for (const auto& [words, message] : cases) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

std::string family_toy_name(const testing::TestParamInfo<FamilyToy>& toy) { return toy.param.name; }
INSTANTIATE_TEST_SUITE_P(Toys, Families, testing::ValuesIn(family_toys()), family_toy_name);

TEST(CpuDecoder, AwqEqualsItsDequantizedTwin) {
  for (const int32_t group : {32, 64, -1}) {
    ToySpec spec;
    spec.awq_group_size = group;
    spec.quantization = ToySpec::Quantization::kAwq;
    const TempDir awq_dir, twin_dir;
    const LoadedDecoder awq = open_toy(awq_dir, spec, f32_options());
    spec.quantization = ToySpec::Quantization::kAwqDequantized;
    const LoadedDecoder twin = open_toy(twin_dir, spec, f32_options());
    ASSERT_NE(awq.decoder, nullptr);
    ASSERT_NE(twin.decoder, nullptr);
    const std::vector<float> expected = logits_of(twin, 150, 150);
    EXPECT_LE(relative_difference(logits_of(awq, 150, 150), expected), 1e-5) << "group " << group;
    EXPECT_LE(
        relative_difference(expected, reference_logits(*twin.checkpoint, random_tokens(150, 256))),
        2e-5);
    // The override that dequantizes at loading has the same reference.
    CpuDecoderOptions options = f32_options();
    options.weights = WeightOverride::kF32;
    auto widened = LoadedDecoder::open(awq_dir.path(), 1, options);
    ASSERT_TRUE(widened.ok()) << widened.status().message();
    EXPECT_EQ(logits_of(*widened, 150, 150), expected) << "group " << group;
  }
}

TEST(CpuDecoder, OverriddenWeightsStayClose) {
  ToySpec spec;
  spec.tied = true;
  const TempDir dir;
  const LoadedDecoder stored = open_toy(dir, spec, f32_options());
  ASSERT_NE(stored.decoder, nullptr);
  const std::vector<float> expected = logits_of(stored, 100, 100);
  // bf16 weights are off by up to 2^-9, int8 ones by up to 1/254 of their channel's maximum.
  for (const auto& [weights, tolerance] :
       {std::pair(WeightOverride::kBf16, 0.05), std::pair(WeightOverride::kInt8, 0.15),
        std::pair(WeightOverride::kInt8Head, 0.02)}) {
    CpuDecoderOptions options = f32_options();
    options.weights = weights;
    auto overridden = LoadedDecoder::open(dir.path(), 2, options);
    ASSERT_TRUE(overridden.ok()) << overridden.status().message();
    const double difference = relative_difference(logits_of(*overridden, 100, 100), expected);
    EXPECT_LE(difference, tolerance) << weight_override_name(weights);
    EXPECT_GT(difference, 1e-4) << weight_override_name(
        weights);  // the override must change the weights
  }
}

TEST(CpuDecoder, LogitsBeyondTheLiveVocabularyAreImpossible) {
  const TempDir dir;
  const LoadedDecoder all = open_toy(dir, {}, f32_options());
  CpuDecoderOptions options = f32_options();
  options.live_vocab = 201;
  auto live = LoadedDecoder::open(dir.path(), 2, options);
  ASSERT_TRUE(live.ok()) << live.status().message();
  const std::vector<float> expected = logits_of(all, 20, 7);
  const std::vector<float> found = logits_of(*live, 20, 7);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t index = 0; index < found.size(); ++index) {
    EXPECT_EQ(found[index], index % 256 < 201 ? expected[index] : -INFINITY) << index;
  }
}

TEST(CpuDecoder, ReportsProgress) {
  ToySpec spec;
  spec.quantization = ToySpec::Quantization::kAwq;
  const TempDir dir;
  std::vector<double> fractions;
  CpuDecoderOptions options = f32_options();
  options.progress = [&fractions](double fraction) { fractions.push_back(fraction); };
  open_toy(dir, spec, options);
  ASSERT_GT(fractions.size(), 10u);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_GT(fractions.front(), 0.0);
  EXPECT_EQ(fractions.back(), 1.0);
}

TEST(CpuDecoder, RefusesAKvCacheThatDoesNotFit) {
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), {}).ok());
  CpuDecoderOptions options = f32_options();
  options.kv_blocks = int64_t{1} << 30;
  const auto loaded = LoadedDecoder::open(dir.path(), 1, options);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kResourceExhausted);
  // 2^30 blocks of 64 tokens, 2 layers * 2 * 2 heads * 16 * 4 bytes per token, heads padded to 32.
  EXPECT_NE(loaded.status().message().find("KV cache of 68719476736 tokens 70 TB"),
            std::string::npos)
      << loaded.status().message();
  options.kv_blocks = 0;
  EXPECT_EQ(LoadedDecoder::open(dir.path(), 1, options).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(CpuDecoder, RefusesRowsOutOfRange) {
  const TempDir dir;
  const LoadedDecoder loaded = open_toy(dir, {}, f32_options());
  const std::vector<int32_t> table = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto status_of = [&](auto spoil) {
    Step step;
    step.sequences.push_back({table.data()});
    SequenceDriver::add_prefix_rows(step, 0, random_tokens(3, 256), 0, true);
    spoil(step.rows[1]);
    return loaded.decoder->forward(step);
  };
  EXPECT_TRUE(status_of([](StepRow&) {}).ok());
  const std::pair<const char*, Status> cases[] = {
      {"token 256", status_of([](StepRow& row) { row.token = 256; })},
      {"token -1", status_of([](StepRow& row) { row.token = -1; })},
      {"position 512", status_of([](StepRow& row) { row.position = 512; })},
      {"sequence 1", status_of([](StepRow& row) { row.sequence_idx = 1; })},
      {"visible tokens 0", status_of([](StepRow& row) { row.visible = 0; })},
      {"visible tokens 3", status_of([](StepRow& row) { row.visible = 3; })},
      {"boundary 3", status_of([](StepRow& row) { row.boundary = 3; })},
      {"ancestor list", status_of([](StepRow& row) { row.boundary = 1; })},
      {"slot -1", status_of([](StepRow& row) { row.slot = -1; })},
      {"KV block 8", status_of([](StepRow& row) { row.slot = 8 * 64; })},
      {"slot of a prefix row 5", status_of([](StepRow& row) { row.slot = 5; })},
  };
  for (const auto& [message, status] : cases) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("row 1"), std::string::npos) << status.message();
  }
  const StepSequence sequence{table.data()};
  EXPECT_FALSE(loaded.decoder->move_kv(sequence, std::vector<KvMove>{{3, 5}}).ok());
  EXPECT_FALSE(loaded.decoder->move_kv(sequence, std::vector<KvMove>{{7, 5}, {8, 4}}).ok());
}

}  // namespace
}  // namespace forerun
