// Compares a decoder on several devices with the same decoder on one, for every degree, family and
// format. A group must be as invariant as one device: a row's bits depend only on the row.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/testing.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kGroupTokens = 100;

struct GroupToy {
  std::string name;
  ToySpec spec;
  Activation activation = Activation::kF32;
  WeightOverride weights = WeightOverride::kAsStored;
  double tolerance = 1e-5;  // ||difference|| / ||logits||
};

std::vector<GroupToy> group_toys() {
  ToySpec base;
  base.num_heads = 8;
  base.num_kv_heads = 2;
  base.head_dim = 16;
  base.intermediate_size = 320;
  base.vocab_size = 200;  // not a multiple of any unit
  std::vector<GroupToy> all;
  all.push_back({"f32", base});
  ToySpec spec = base;
  spec.tied = spec.attention_bias = spec.mlp_bias = true;
  spec.num_kv_heads = 8;
  all.push_back({"f32_biases_tied_no_groups", spec});
  spec = base;
  spec.family = "qwen3";
  spec.num_kv_heads = 1;
  spec.sliding_window = 40;
  all.push_back({"f32_qwen3_one_kv_head_window", spec});
  spec = base;
  spec.family = "qwen2";
  spec.num_heads = 7;  // 7 query heads share one KV head
  spec.num_kv_heads = 1;
  spec.head_dim = 24;
  all.push_back({"f32_qwen2_seven_heads", spec});
  spec = base;
  spec.dtype = DType::kBf16;
  all.push_back({"bf16", spec, Activation::kBf16, WeightOverride::kAsStored, 2e-2});
  spec.dtype = DType::kF16;
  all.push_back({"f16", spec, Activation::kBf16, WeightOverride::kAsStored, 2e-2});
  // The scales of o and down come from a device's own columns, so weights round differently.
  all.push_back({"int8", base, Activation::kBf16, WeightOverride::kInt8, 5e-2});
  spec = base;
  spec.quantization = ToySpec::Quantization::kAwq;
  all.push_back({"int4_f32", spec, Activation::kF32});
  all.push_back({"int4_bf16", spec, Activation::kBf16, WeightOverride::kAsStored, 2e-2});
  spec.awq_group_size = -1;
  all.push_back({"int4_one_group", spec, Activation::kF32});
  all.push_back({"int4_widened", spec, Activation::kF32, WeightOverride::kF32});
  return all;
}

class Groups : public testing::TestWithParam<size_t> {
 protected:
  Groups() : toy_(group_toys()[GetParam()]) {
    const Status written = write_toy_checkpoint(dir_.path(), toy_.spec);
    EXPECT_TRUE(written.ok()) << written.message();
  }
  LoadedDecoder open(const std::vector<int32_t>& team_sizes) const {
    CpuDecoderOptions options;
    options.activation = toy_.activation;
    options.weights = toy_.weights;
    options.kv_blocks = 8;
    auto loaded = LoadedDecoder::open(dir_.path(), team_sizes, options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? std::move(*loaded) : LoadedDecoder();
  }
  std::vector<float> logits(const LoadedDecoder& loaded, int64_t rows_per_step) const {
    SequenceDriver sequence(loaded.decoder.get(), {3, 6});
    auto found = sequence.run(toy_tokens(kGroupTokens, toy_.spec.vocab_size), 0, rows_per_step);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? std::move(*found) : std::vector<float>();
  }

  const TempDir dir_;
  const GroupToy toy_;
};

double relative_norm(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0.0;
  double norm = 0.0;
  for (size_t at = 0; at < found.size(); ++at) {
    if (!std::isfinite(found[at])) return INFINITY;
    const double a = found[at];
    const double b = expected[at];
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return std::sqrt(difference / norm);
}

TEST_P(Groups, EveryDegreeGivesTheLogitsOfOneDevice) {
  const LoadedDecoder single_device = open({1});
  ASSERT_NE(single_device.decoder, nullptr);
  const std::vector<float> expected = logits(single_device, kGroupTokens);
  for (int32_t degree = 2; degree <= 8; ++degree) {
    const LoadedDecoder group = open(std::vector<int32_t>(static_cast<size_t>(degree), 1));
    ASSERT_NE(group.decoder, nullptr);
    ASSERT_EQ(group.decoder->degree(), degree);
    const std::vector<float> found = logits(group, kGroupTokens);
    EXPECT_LE(relative_norm(found, expected), toy_.tolerance) << "degree " << degree;
  }
}

TEST_P(Groups, BitsOfARowDependOnTheRowAlone) {
  for (const int32_t degree : {2, 3, 5}) {
    const LoadedDecoder group = open(std::vector<int32_t>(static_cast<size_t>(degree), 1));
    ASSERT_NE(group.decoder, nullptr);
    const std::vector<float> expected = logits(group, 1);
    for (const int64_t rows : {7, 64}) {
      EXPECT_TRUE(logits(group, rows) == expected) << rows << " rows, degree " << degree;
    }
    // The bits must not depend on the devices' threads either.
    std::vector<int32_t> teams(static_cast<size_t>(degree), 2);
    teams.back() = 3;
    EXPECT_TRUE(logits(open(teams), 9) == expected) << "degree " << degree;
  }
}

std::string group_toy_name(const testing::TestParamInfo<size_t>& toy) {
  return group_toys()[toy.param].name;
}
INSTANTIATE_TEST_SUITE_P(Toys, Groups,
                         testing::Range(size_t{0}, group_toys().size(), size_t{kSanitized ? 3 : 1}),
                         group_toy_name);

// Runs tree rows, rows without logits and moves on three devices with two threads and one.
TEST(CpuDecoderGroups, TreesAndMoves) {
  const TempDir dir;
  ToySpec spec;
  spec.num_heads = 8;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  CpuDecoderOptions options;
  options.kv_blocks = 8;
  auto loaded = LoadedDecoder::open(dir.path(), {2, 1, 1}, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  Decoder& decoder = *loaded->decoder;
  const std::vector<int32_t> tokens = toy_tokens(80, 256);
  const auto expected = SequenceDriver(&decoder, {0, 1}).run(tokens, 0, 1);
  ASSERT_TRUE(expected.ok());
  const std::vector<int32_t> table = {5, 2};
  const StepSequence sequence{table.data()};
  Step step;
  step.sequences.push_back(sequence);
  SequenceDriver::add_prefix_rows(step, 0, std::span(tokens).first(60), 0, false);
  ASSERT_TRUE(decoder.forward(step).ok());
  // Each right node has a wrong sibling in front of it.
  step.rows.clear();
  std::vector<int32_t> path;
  for (int32_t position = 60; position < 70; ++position) {
    for (const bool right : {false, true}) {
      StepRow row;
      row.token = (tokens[static_cast<size_t>(position)] + (right ? 0 : 1)) % 256;
      row.position = position;
      row.slot = 60 + 2 * (position - 60) + (right ? 1 : 0);
      row.visible = position + 1;
      row.boundary = 60;
      row.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
      row.wants_logits = right;
      step.ancestors.insert(step.ancestors.end(), path.begin(), path.end());
      step.ancestors.push_back(row.slot);
      step.rows.push_back(row);
      if (right) path.push_back(row.slot);
    }
  }
  ASSERT_TRUE(decoder.forward(step).ok());
  const std::vector<float> tree = copy_logits(decoder);
  ASSERT_EQ(tree.size(), 10u * 256u);
  EXPECT_TRUE(std::equal(tree.begin(), tree.end(), expected->begin() + 60 * 256));
  std::vector<KvMove> moves;
  moves.reserve(10);
  for (int32_t index = 0; index < 10; ++index) {
    moves.push_back({path[static_cast<size_t>(index)], 60 + index});
  }
  ASSERT_TRUE(decoder.move_kv(sequence, moves).ok());
  const auto rest = SequenceDriver(&decoder, table).run(std::span(tokens).subspan(70), 70, 3);
  ASSERT_TRUE(rest.ok());
  EXPECT_TRUE(std::equal(rest->begin(), rest->end(), expected->begin() + 70 * 256));
}

TEST(CpuDecoderGroups, RefusesWhatTheShardPlanRefuses) {
  const TempDir dir;
  ToySpec spec;
  spec.num_heads = 1;
  spec.num_kv_heads = 1;
  spec.intermediate_size = 32;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  CpuDecoderOptions options;
  options.kv_blocks = 8;
  EXPECT_TRUE(LoadedDecoder::open(dir.path(), {1, 1}, options).ok());
  const auto refused = LoadedDecoder::open(dir.path(), {1, 1, 1}, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("fewer devices"), std::string::npos);
  const auto many = LoadedDecoder::open(dir.path(), std::vector<int32_t>(9, 1), options);
  ASSERT_FALSE(many.ok());
  EXPECT_NE(many.status().message().find("found 9 devices"), std::string::npos);
  // The error names the memory of each device.
  options.kv_blocks = int64_t{1} << 30;
  const auto large = LoadedDecoder::open(dir.path(), {1, 1}, options);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(large.status().message().find("device 1:"), std::string::npos)
      << large.status().message();
}

// A device that fails or comes late in the middle of a forward pass makes only that pass fail.
TEST(CpuDecoderGroups, AFaultEndsTheForwardAndTheNextOneRuns) {
  const TempDir dir;
  ToySpec spec;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok());
  const std::vector<int32_t> tokens = toy_tokens(20, 256);
  for (const bool late : {false, true}) {
    std::atomic<int> countdown{1 << 30};
    CpuGroupOptions group_options;
    group_options.devices.resize(3, {{}, 1});
    group_options.timeout = std::chrono::milliseconds(400);
    group_options.before_collective = [&](int32_t rank) {
      if (rank != 2 || --countdown != 0) return Status();
      if (!late) return Status(StatusCode::kInternal, "the device is gone");
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
      return Status();
    };
    auto group = CpuDeviceGroup::create(group_options);
    ASSERT_TRUE(group.ok());
    CpuDecoderOptions options;
    options.kv_blocks = 8;
    auto decoder = CpuDecoder::load(*checkpoint, group->get(), options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    SequenceDriver sequence(decoder->get(), {1});
    const auto expected = sequence.run(tokens, 0, 20);
    ASSERT_TRUE(expected.ok());
    for (const int collective : {1, 4}) {
      countdown = collective;
      const auto failed = sequence.run(tokens, 0, 20);
      ASSERT_FALSE(failed.ok()) << collective;
      EXPECT_EQ(failed.status().code(),
                late ? StatusCode::kDeadlineExceeded : StatusCode::kInternal);
      EXPECT_NE(failed.status().message().find("device 2"), std::string::npos)
          << failed.status().message();
      const auto again = sequence.run(tokens, 0, 20);
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_TRUE(*again == *expected);
    }
  }
}

}  // namespace
}  // namespace forerun
