// Checks that a row's bits do not depend on how its Step is cut, on other rows, slots or threads.
// Tests whole toy models with every weight format and activation.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/testing.h"
#include "model/decoder_checks_rig.h"
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
    {"q8_0", kPlain, DType::kBf16, requantize_to(WeightFormat::kQ8_0), Activation::kBf16},
    {"int8_head", kPlain, DType::kBf16, WeightOverride::kInt8Head, Activation::kBf16},
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
    tokens_ = toy_tokens(kTokens, kVocab);
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
  static std::vector<int32_t> blocks() { return SequenceDriver::blocks_for(kTokens); }

  TempDir dir_;
  std::vector<int32_t> tokens_;
};

TEST_P(Invariance, RowsPerStepBlocksAndThreads) {
  const LoadedDecoder single_thread = open(1);
  const std::vector<float> expected = run_tokens(*single_thread.decoder, tokens_, 0, 1, blocks());
  std::vector<int32_t> scattered = SequenceDriver::blocks_for(kTokens, 20);
  std::reverse(scattered.begin(), scattered.end());
  const std::vector<int64_t> row_counts =
      kSanitized ? std::vector<int64_t>{9, 1024} : std::vector<int64_t>{2, 8, 9, 64, 1024};
  for (const int64_t rows : row_counts) {
    EXPECT_TRUE(run_tokens(*single_thread.decoder, tokens_, 0, rows, scattered) == expected)
        << rows << " rows";
  }
  for (const int32_t threads : {3, 2}) {
    if (kSanitized && threads == 2) continue;
    const LoadedDecoder team = open(threads);
    for (const int64_t rows : {8, 1024}) {
      EXPECT_TRUE(run_tokens(*team.decoder, tokens_, 0, rows, blocks()) == expected)
          << rows << " rows, " << threads << " threads";
    }
    const std::vector<float> start =
        run_tokens(*team.decoder, part_of(tokens_, 0, 300), 0, 1, blocks());
    EXPECT_TRUE(std::equal(start.begin(), start.end(), expected.begin())) << threads << " threads";
  }
}

TEST_P(Invariance, TreesAndCommits) {
  const LoadedDecoder loaded = open(2);
  expect_trees_and_commits(*loaded.decoder, tokens_, /*depth=*/9, /*first_block=*/20);
}

TEST_P(Invariance, UnwantedRowsAndOthers) {
  const LoadedDecoder loaded = open(2);
  expect_unwanted_rows_and_others(*loaded.decoder, tokens_, /*first_block=*/20);
}

std::string numerics_name(const testing::TestParamInfo<Numerics>& info_of) {
  return info_of.param.name;
}
std::vector<Numerics> numerics() {
  std::vector<Numerics> all(std::begin(kNumerics), std::end(kNumerics));
  if (kThreadSanitized) {
    std::erase_if(all, [](const Numerics& entry) { return entry.activation != Activation::kInt8; });
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Formats, Invariance, testing::ValuesIn(numerics()), numerics_name);

}  // namespace
}  // namespace forerun
