// Tests EAGLE-3 heads on a GPU. Logits and own features must be near those of the CPU's decoder,
// which another test compares with the published module in every layout. A row's bits must not
// depend on other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "device/cuda/cuda_testing.h"
#include "model/cuda/decoder.h"
#include "model/head_rows_rig.h"
#include "model/testing.h"

namespace forerun::cuda {
namespace {

std::vector<HeadCase> cases() {
  ToySpec target;
  target.hidden_size = 128;
  target.num_heads = 8;
  target.dtype = DType::kBf16;
  std::vector<HeadCase> all = head_cases(target);
  HeadCase int4 = all.front();
  int4.name = "int4";
  int4.head.quantization = ToySpec::Quantization::kAwq;
  int4.head.awq_group_size = 128;
  int4.head.dtype = DType::kF16;
  all.push_back(int4);
  return all;
}

// The outputs of a head for the prompt and a tree behind it.
struct Outputs {
  std::vector<float> logits;    // [rows][kHeadVocab]
  std::vector<float> features;  // the head's own features of the last token and the tree's first
                                // two nodes
};

// Returns the root mean square of the difference over that of the expected values; infinite logits
// must agree.
double relative_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double square = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isinf(expected[i])) {
      if (found[i] != expected[i]) return INFINITY;
      continue;
    }
    if (!std::isfinite(found[i])) return INFINITY;
    const double difference = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    square += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(square / norm);
}

class Eagle3Cuda : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPUS(1);
    const HeadCase tested = cases()[GetParam()];
    ASSERT_TRUE(write_toy_checkpoint(target_dir_.path(), tested.target).ok());
    ASSERT_TRUE(write_toy_checkpoint(head_dir_.path(), tested.head).ok());
    auto target = Checkpoint::open(target_dir_.path());
    ASSERT_TRUE(target.ok()) << target.status().message();
    target_checkpoint_ = std::make_unique<Checkpoint>(std::move(*target));
    auto head = Checkpoint::open_eagle3(head_dir_.path());
    ASSERT_TRUE(head.ok()) << head.status().message();
    head_checkpoint_ = std::make_unique<Checkpoint>(std::move(*head));
    tokens_ = toy_tokens(kHeadTokens + 4, kHeadVocab);
    DecoderCudaOptions options;
    options.kv_blocks = 2;
    options.taps = {.after_layers = target_layers(), .places = kTargetPlaces};
    auto decoder = DecoderCuda::load(*target_checkpoint_, options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    target_ = std::move(*decoder);
    read_text(*target_);
  }

  std::vector<int32_t> target_layers() const {
    return fit_eagle3(head_checkpoint_->config(), target_checkpoint_->config()).value();
  }
  DecoderCudaOptions head_options() const {
    DecoderCudaOptions options;
    options.kv_blocks = 2;
    options.target = target_checkpoint_.get();
    options.target_decoder = target_.get();
    options.taps = {.after_layers = {head_checkpoint_->config().num_layers}, .places = kOwnPlaces};
    return options;
  }
  std::unique_ptr<DecoderCuda> load_head(const DecoderCudaOptions& options) {
    auto decoder = DecoderCuda::load(*head_checkpoint_, options);
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    return decoder.ok() ? std::move(*decoder) : nullptr;
  }

  void read_text(Decoder& target) const {
    const std::vector<int32_t> table = {1, 0};
    const Status ran = target.forward(text_step(tokens_, table));
    ASSERT_TRUE(ran.ok()) << ran.message();
  }

  // Calls run_text_and_tree(); `read` returns the feature at a place of the head's own store.
  template <class Read>
  Outputs run(Decoder& head, int32_t rows_per_step, const Read& read) const {
    const std::vector<int32_t> table = {0, 1};
    Outputs out;
    run_text_and_tree(tokens_, rows_per_step, [&](Step step, bool) {
      step.sequences.assign(1, {table.data()});
      const Status ran = head.forward(step);
      EXPECT_TRUE(ran.ok()) << ran.message();
      const std::vector<float> logits = copy_logits(head);
      out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    });
    for (const int32_t place : {kLastTokenPlace, 0, 1}) {
      const std::vector<float> row = read(place);
      out.features.insert(out.features.end(), row.begin(), row.end());
    }
    return out;
  }
  Outputs run(DecoderCuda& head, int32_t rows_per_step) const {
    return run(head, rows_per_step, [&head](int32_t place) {
      std::vector<bf16> row(static_cast<size_t>(head.taps().width()));
      EXPECT_TRUE(head.taps().download(place, row).ok());
      std::vector<float> wide;
      for (const bf16 value : row) wide.push_back(to_float(value));
      return wide;
    });
  }
  Outputs run_on_cpu() const {
    CpuDecoderOptions options;
    options.kv_blocks = 2;
    options.taps = {.after_layers = target_layers(), .places = kTargetPlaces};
    const auto target = LoadedDecoder::open(target_dir_.path(), 2, options);
    EXPECT_TRUE(target.ok()) << target.status().message();
    read_text(*target->decoder);
    options.target = target->checkpoint.get();
    options.target_taps = &dynamic_cast<const CpuDecoder&>(*target->decoder).taps();
    options.taps = {.after_layers = {head_checkpoint_->config().num_layers}, .places = kOwnPlaces};
    const auto devices = CpuDeviceGroup::create_unpinned({2});
    const auto head = CpuDecoder::load(*head_checkpoint_, devices->get(), options);
    EXPECT_TRUE(head.ok()) << head.status().message();
    const TapStore& own = dynamic_cast<const CpuDecoder&>(**head).taps();
    return run(**head, kHeadTokens, [&own](int32_t place) {
      const auto* const row = reinterpret_cast<const bf16*>(own.row(place));
      std::vector<float> wide;
      for (int64_t i = 0; i < own.width(); ++i) wide.push_back(to_float(row[i]));
      return wide;
    });
  }

  const TempDir target_dir_, head_dir_;
  std::unique_ptr<Checkpoint> target_checkpoint_, head_checkpoint_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<DecoderCuda> target_;
};

TEST_P(Eagle3Cuda, LogitsAndFeaturesAreTheCpus) {
  const auto head = load_head(head_options());
  ASSERT_NE(head, nullptr);
  const Outputs expected = run_on_cpu();
  const Outputs found = run(*head, kHeadTokens);
  EXPECT_EQ(found.logits.size(), static_cast<size_t>(kHeadTokens + kHeadNodes) * kHeadVocab);
  EXPECT_LT(relative_difference(found.logits, expected.logits), 3e-2);
  EXPECT_LT(relative_difference(found.features, expected.features), 3e-2);
}

TEST_P(Eagle3Cuda, RowsKeepTheirBitsBesideOthers) {
  const auto head = load_head(head_options());
  ASSERT_NE(head, nullptr);
  const Outputs expected = run(*head, kHeadTokens);
  for (const int32_t rows_per_step : {1, 2, 13, 40}) {
    const Outputs found = run(*head, rows_per_step);
    EXPECT_TRUE(found.logits == expected.logits) << rows_per_step;
    EXPECT_TRUE(found.features == expected.features) << rows_per_step;
  }
}

TEST_P(Eagle3Cuda, ARoundedLmHeadIsNearAndKeepsBits) {
  if (head_checkpoint_->config().hidden_size % 128 != 0) GTEST_SKIP() << "it stays as it is";
  const auto head = load_head(head_options());
  ASSERT_NE(head, nullptr);
  const Outputs expected = run(*head, kHeadTokens);
  for (const auto& [weights, most] :
       {std::pair(WeightOverride::kInt8Head, 0.015), {WeightOverride::kInt4Head, 0.2}}) {
    DecoderCudaOptions options = head_options();
    options.weights = weights;
    const auto rounded = load_head(options);
    ASSERT_NE(rounded, nullptr);
    const Outputs found = run(*rounded, kHeadTokens);
    const double difference = relative_difference(found.logits, expected.logits);
    EXPECT_LT(difference, most) << weight_override_name(weights);
    EXPECT_GT(difference, 1e-4) << weight_override_name(weights);
    EXPECT_TRUE(found.features == expected.features) << weight_override_name(weights);
    EXPECT_TRUE(run(*rounded, 1).logits == found.logits) << weight_override_name(weights);
  }
}

TEST_P(Eagle3Cuda, LogitsBeyondTheLiveVocabularyAreImpossible) {
  constexpr int32_t kLive = kHeadVocab / 2 + 7;
  DecoderCudaOptions options = head_options();
  const auto whole = load_head(options);
  options.live_vocab = kLive;
  const auto cut = load_head(options);
  ASSERT_TRUE(whole && cut);
  const std::vector<float> all = run(*whole, kHeadTokens).logits;
  const std::vector<float> found = run(*cut, kHeadTokens).logits;
  ASSERT_EQ(found.size(), all.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], i % kHeadVocab < kLive ? all[i] : -INFINITY) << i;
  }
}

// The target's first GPU has its taps and its embedding, but only a part of its LM head.
TEST_P(Eagle3Cuda, ATargetMayHaveSeveralGpus) {
  DecoderCudaOptions options;
  options.devices = {0, 1 % gpus_of_sm90()};
  options.kv_blocks = 2;
  options.taps = {.after_layers = target_layers(), .places = kTargetPlaces};
  const auto target = DecoderCuda::load(*target_checkpoint_, options);
  ASSERT_TRUE(target.ok()) << target.status().message();
  read_text(**target);
  const auto expected = load_head(head_options());
  DecoderCudaOptions of_head = head_options();
  of_head.target_decoder = target->get();
  const auto head = load_head(of_head);
  ASSERT_TRUE(expected && head);
  EXPECT_LT(relative_difference(run(*head, kHeadTokens).logits, run(*expected, kHeadTokens).logits),
            3e-2);
}

TEST_P(Eagle3Cuda, MisfitsAreRefused) {
  const auto refusal = [this](const DecoderCudaOptions& options) {
    return DecoderCuda::load(*head_checkpoint_, options).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  DecoderCudaOptions options = head_options();
  options.target_decoder = nullptr;
  EXPECT_TRUE(has(refusal(options), "EAGLE-3 head: found no target on GPUs; accepted: one with"));
  options = head_options();
  options.devices = {0, 0};
  EXPECT_TRUE(has(refusal(options), "found 2 devices, the first cuda:0; accepted: cuda:0 alone"));
  options = head_options();
  options.taps.after_layers = {0};
  EXPECT_TRUE(has(refusal(options), "found a tap of its own after 0 layers; accepted: one, after"));
  const auto head = load_head(head_options());
  ASSERT_NE(head, nullptr);
  const std::vector<int32_t> table = {0, 1};
  Step step;
  step.sequences.push_back({table.data()});
  step.rows.push_back(head_row(5, 1));
  EXPECT_TRUE(has(head->forward(step).message(), "found features of 0 rows; accepted: of all 1"));
  step.features.push_back({.is_own = true, .place = kOwnPlaces});
  EXPECT_TRUE(has(head->forward(step).message(), "place of its feature 9; accepted: 0 to 8"));
  step.features[0] = {.is_own = false, .place = kTargetPlaces};
  EXPECT_TRUE(has(head->forward(step).message(), "place of its feature 73; accepted: 0 to 72"));
  step.features[0].place = 3;
  EXPECT_TRUE(head->forward(step).ok());
}

INSTANTIATE_TEST_SUITE_P(Heads, Eagle3Cuda, testing::Range(size_t{0}, cases().size()),
                         [](const auto& tested) { return cases()[tested.param].name; });

}  // namespace
}  // namespace forerun::cuda
