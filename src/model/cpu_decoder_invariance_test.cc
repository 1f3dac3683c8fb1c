// Bits: what a row computes does not depend on how its Step is cut, on companions, slots or
// threads. Whole toy models, every weight format and activation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kVocab = 96;
constexpr int32_t kTokens = 1100;
constexpr int64_t kKvBlocks = 40;

struct Numerics {
  const char* name;
  ToySpec::Quantization quantization;
  DType dtype;
  WeightOverride weights;
  Activation activation;
};

constexpr auto kPlain = ToySpec::Quantization::kNone;
constexpr auto kAwq = ToySpec::Quantization::kAwq;
constexpr Numerics kNumerics[] = {
    {"f32", kPlain, DType::kF32, WeightOverride::kAsStored, Activation::kF32},
    {"bf16", kPlain, DType::kBf16, WeightOverride::kAsStored, Activation::kBf16},
    {"f16", kPlain, DType::kF16, WeightOverride::kAsStored, Activation::kBf16},
    {"int8", kPlain, DType::kBf16, WeightOverride::kInt8, Activation::kBf16},
    {"int8_int8", kPlain, DType::kBf16, WeightOverride::kInt8, Activation::kInt8},
    {"int4", kAwq, DType::kBf16, WeightOverride::kAsStored, Activation::kBf16},
    {"int4_int8", kAwq, DType::kBf16, WeightOverride::kAsStored, Activation::kInt8},
    {"int4_f32", kAwq, DType::kF16, WeightOverride::kAsStored, Activation::kF32},
};

class Invariance : public testing::TestWithParam<Numerics> {
 protected:
  Invariance() {
    ToySpec spec;
    spec.family = "mistral";
    spec.vocab_size = kVocab;
    spec.max_position = 2048;
    spec.sliding_window = 600;
    spec.quantization = GetParam().quantization;
    spec.dtype = GetParam().dtype;
    const Status written = write_toy_checkpoint(dir_.path(), spec);
    EXPECT_TRUE(written.ok()) << written.message();
    for (int32_t index = 0; index < kTokens; ++index) {
      tokens_.push_back((index * index * 7 + index * 31 + 5) % kVocab);
    }
  }
  LoadedDecoder open(int32_t threads) const {
    CpuDecoderOptions options;
    options.activation = GetParam().activation;
    options.weights = GetParam().weights;
    options.kv_blocks = kKvBlocks;
    auto loaded = LoadedDecoder::open(dir_.path(), threads, options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return std::move(*loaded);
  }
  std::span<const int32_t> tokens(int32_t begin, int32_t end) const {
    return std::span<const int32_t>(tokens_).subspan(static_cast<size_t>(begin),
                                                     static_cast<size_t>(end - begin));
  }
  static std::vector<float> run(Decoder& decoder, std::span<const int32_t> part, int32_t begin,
                                int64_t rows_per_step, std::vector<int32_t> blocks) {
    auto logits = SequenceDriver(&decoder, std::move(blocks)).run(part, begin, rows_per_step);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    return logits.ok() ? std::move(*logits) : std::vector<float>();
  }
  static std::vector<float> row(const std::vector<float>& logits, int64_t row_idx) {
    return {logits.begin() + row_idx * kVocab, logits.begin() + (row_idx + 1) * kVocab};
  }
  static std::vector<int32_t> blocks() { return SequenceDriver::blocks_for(kTokens); }

  TempDir dir_;
  std::vector<int32_t> tokens_;
};

TEST_P(Invariance, RowsPerStepBlocksAndThreads) {
  const LoadedDecoder one = open(1);
  const std::vector<float> expected = run(*one.decoder, tokens_, 0, 1, blocks());
  std::vector<int32_t> scattered = SequenceDriver::blocks_for(kTokens, 20);
  std::reverse(scattered.begin(), scattered.end());
  for (const int64_t rows : {2, 8, 9, 64, 1024}) {
    EXPECT_TRUE(run(*one.decoder, tokens_, 0, rows, scattered) == expected) << rows << " rows";
  }
  for (const int32_t threads : {2, 3}) {
    const LoadedDecoder team = open(threads);
    for (const int64_t rows : {8, 1024}) {
      EXPECT_TRUE(run(*team.decoder, tokens_, 0, rows, blocks()) == expected)
          << rows << " rows, " << threads << " threads";
    }
    const std::vector<float> start = run(*team.decoder, tokens(0, 300), 0, 1, blocks());
    EXPECT_TRUE(std::equal(start.begin(), start.end(), expected.begin())) << threads << " threads";
  }
}

// A tree behind a prefix of 250 tokens: one path continues the sequence, the siblings do not.
TEST_P(Invariance, TreesAndCommits) {
  constexpr int32_t kPrefix = 250;
  constexpr int32_t kDepth = 9;
  const LoadedDecoder loaded = open(2);
  Decoder& decoder = *loaded.decoder;
  const std::vector<float> expected = run(decoder, tokens(0, 300), 0, 1, blocks());

  const std::vector<int32_t> table = SequenceDriver::blocks_for(kTokens, 20);
  run(decoder, tokens(0, kPrefix), 0, kPrefix, table);
  // Two nodes a level, the wrong one first; slots in order of rows.
  Step step;
  step.sequences.push_back({table.data()});
  std::vector<int32_t> path;
  for (int32_t depth = 0; depth < kDepth; ++depth) {
    const int32_t right = tokens_[static_cast<size_t>(kPrefix + depth)];
    for (const bool on_path : {false, true}) {
      StepRow node;
      node.token = on_path ? right : (right + 1) % kVocab;
      node.position = kPrefix + depth;
      node.slot = kPrefix + 2 * depth + (on_path ? 1 : 0);
      node.boundary = kPrefix;
      node.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
      node.wants_logits = true;
      step.ancestors.insert(step.ancestors.end(), path.begin(), path.end());
      step.ancestors.push_back(node.slot);
      step.rows.push_back(node);
      if (on_path) path.push_back(node.slot);
    }
  }
  ASSERT_TRUE(decoder.forward(step).ok());
  const std::vector<float> tree = copy_logits(decoder);
  for (int32_t depth = 0; depth < kDepth; ++depth) {
    EXPECT_TRUE(row(tree, 2 * depth + 1) == row(expected, kPrefix + depth)) << "depth " << depth;
    EXPECT_FALSE(row(tree, 2 * depth) == row(expected, kPrefix + depth)) << "depth " << depth;
  }
  // The path becomes prefix, and the sequence goes on from it.
  std::vector<KvMove> moves;
  for (int32_t depth = 0; depth < kDepth; ++depth) {
    moves.push_back({path[static_cast<size_t>(depth)], kPrefix + depth});
  }
  ASSERT_TRUE(decoder.move_kv({table.data()}, moves).ok());
  const std::vector<float> rest =
      run(decoder, tokens(kPrefix + kDepth, 300), kPrefix + kDepth, 5, table);
  EXPECT_TRUE(rest ==
              std::vector<float>(expected.begin() + (kPrefix + kDepth) * kVocab, expected.end()));
}

// Rows that want nothing skip the end of the last layer; their KV and the others' bits stay.
TEST_P(Invariance, UnwantedRowsAndCompanions) {
  const LoadedDecoder loaded = open(2);
  Decoder& decoder = *loaded.decoder;
  const std::vector<float> expected = run(decoder, tokens(0, 330), 0, 1, blocks());
  const std::vector<int32_t> first = SequenceDriver::blocks_for(kTokens, 20);
  const std::vector<int32_t> second = {0, 1, 2, 3, 4, 5};
  for (const int32_t wanted_from : {0, 1, 299, 300}) {
    Step step;
    step.sequences.push_back({second.data()});
    step.sequences.push_back({first.data()});
    // Another sequence in front, wanted as well: it only shifts rows.
    SequenceDriver::add_prefix_rows(step, 0, tokens(40, 43), 0, true);
    SequenceDriver::add_prefix_rows(step, 1, tokens(0, wanted_from), 0, false);
    SequenceDriver::add_prefix_rows(step, 1, tokens(wanted_from, 300), wanted_from, true);
    ASSERT_TRUE(decoder.forward(step).ok());
    const std::vector<float> found = copy_logits(decoder);
    ASSERT_EQ(found.size(), static_cast<size_t>((3 + 300 - wanted_from) * kVocab));
    EXPECT_TRUE(std::equal(found.begin() + 3 * kVocab, found.end(),
                           expected.begin() + wanted_from * kVocab))
        << "wanted from " << wanted_from;
    const std::vector<float> rest = run(decoder, tokens(300, 330), 300, 30, first);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 300 * kVocab))
        << "wanted from " << wanted_from;
  }
}

std::string numerics_name(const testing::TestParamInfo<Numerics>& info_of) {
  return info_of.param.name;
}
INSTANTIATE_TEST_SUITE_P(Formats, Invariance, testing::ValuesIn(kNumerics), numerics_name);

}  // namespace
}  // namespace forerun
