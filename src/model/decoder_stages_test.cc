// Compares a decoder cut into stages with the uncut one, bit for bit: every family and format, even
// and uneven cuts, trees, batches, prompts of several chunks, and moves of KV. Also checks which
// parts of a checkpoint a stage reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/testing.h"
#include "model/decoder_memory.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kStageLayers = 8;

struct StageToy {
  std::string name;
  ToySpec spec;
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;
  std::vector<int32_t> team_sizes = {1};  // threads of each device of a stage
};

std::vector<StageToy> stage_toys() {
  ToySpec base;
  base.num_layers = kStageLayers;
  base.dtype = DType::kBf16;
  std::vector<StageToy> all;
  all.push_back({"llama_bf16", base});
  all.push_back(
      {"llama_bf16_two_devices", base, Activation::kBf16, WeightOverride::kAsStored, {1, 1}});
  ToySpec spec = base;
  spec.dtype = DType::kF32;
  all.push_back({"llama_f32", spec, Activation::kF32});
  all.push_back({"llama_int8", spec, Activation::kInt8, WeightOverride::kInt8, {2}});
  spec.tied = spec.attention_bias = spec.mlp_bias = true;
  all.push_back({"llama_biases_tied", spec});
  spec = base;
  spec.quantization = ToySpec::Quantization::kAwq;
  all.push_back({"llama_int4", spec});
  all.push_back(
      {"llama_int4_three_devices", spec, Activation::kBf16, WeightOverride::kAsStored, {1, 2, 1}});
  spec.family = "qwen2";
  all.push_back({"qwen2_int4", spec});
  spec = base;
  spec.family = "qwen2";
  // Only the upper layers have windows: a stage must count layers from the model's first one.
  spec.sliding_window = 24;
  spec.max_window_layers = 3;
  all.push_back({"qwen2_bf16_windows_above", spec});
  spec = base;
  spec.family = "qwen3";
  spec.tied = true;
  all.push_back({"qwen3_bf16_tied", spec});
  spec = base;
  spec.family = "mistral";
  spec.sliding_window = 40;
  all.push_back({"mistral_bf16", spec});
  spec.quantization = ToySpec::Quantization::kAwq;
  all.push_back({"mistral_int4", spec});
  return all;
}

// Returns lists of stage sizes that add up to kStageLayers.
std::vector<std::vector<int32_t>> cuts() {
  return {{8},          {4, 4},       {1, 7},
          {7, 1},       {3, 3, 2},    {1, 6, 1},
          {2, 2, 2, 2}, {1, 4, 2, 1}, std::vector<int32_t>(8, 1)};
}

// Returns the logits of several Steps: a long prompt (more than a chunk) beside a short one, two
// trees with a branch at every level, a commit of one of them, and rows behind it.
std::vector<float> run_batches(Decoder& decoder) {
  const int32_t vocab = decoder.config().vocab_size;
  const std::vector<int32_t> tables[] = {{3, 6, 1, 9, 4}, {2, 7, 5, 8, 10}};
  const std::vector<int32_t> texts[] = {toy_tokens(280, vocab, 5), toy_tokens(70, vocab, 11)};
  std::vector<float> all;
  const auto run = [&](const Step& step) {
    const Status ran = decoder.forward(step);
    EXPECT_TRUE(ran.ok()) << ran.message();
    const std::vector<float> logits = copy_logits(decoder);
    all.insert(all.end(), logits.begin(), logits.end());
  };
  Step step;
  for (const auto& table : tables) step.sequences.push_back({table.data()});
  for (int32_t sequence = 0; sequence < 2; ++sequence) {
    SequenceDriver::add_prefix_rows(step, sequence, texts[sequence], 0, false);
    step.rows.back().wants_logits = true;
  }
  step.rows[3].wants_logits = true;
  run(step);
  step.rows.clear();
  std::vector<int32_t> paths[2];
  for (int32_t level = 0; level < 5; ++level) {
    for (int32_t sequence = 0; sequence < 2; ++sequence) {
      const auto prefix = static_cast<int32_t>(texts[sequence].size());
      for (const bool goes_on : {false, true}) {
        StepRow row;
        row.token = (level * 17 + sequence * 5 + (goes_on ? 3 : 90)) % vocab;
        row.position = prefix + level;
        row.sequence_idx = sequence;
        row.slot = prefix + 2 * level + (goes_on ? 1 : 0);
        row.visible = row.position + 1;
        row.boundary = prefix;
        row.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
        row.wants_logits = goes_on || level % 2 == 0;
        step.ancestors.insert(step.ancestors.end(), paths[sequence].begin(), paths[sequence].end());
        step.ancestors.push_back(row.slot);
        step.rows.push_back(row);
        if (goes_on) paths[sequence].push_back(row.slot);
      }
    }
  }
  run(step);
  std::vector<KvMove> moves;
  for (size_t at = 0; at < paths[0].size(); ++at) {
    moves.push_back({paths[0][at], static_cast<int32_t>(texts[0].size() + at)});
  }
  EXPECT_TRUE(decoder.move_kv(step.sequences[0], moves).ok());
  step.rows.clear();
  step.ancestors.clear();
  SequenceDriver::add_prefix_rows(step, 0, toy_tokens(4, vocab, 3),
                                  static_cast<int32_t>(texts[0].size() + moves.size()), true);
  run(step);
  // No row wants logits, so the last stage only writes KV.
  step.rows.clear();
  SequenceDriver::add_prefix_rows(step, 1, toy_tokens(2, vocab, 8),
                                  static_cast<int32_t>(texts[1].size()), false);
  run(step);
  return all;
}

struct OpenedStages {
  std::vector<LoadedDecoder> loaded;
  std::unique_ptr<ChainedStages> chain;
};

class DecoderStages : public testing::TestWithParam<size_t> {
 protected:
  DecoderStages() : toy_(stage_toys()[GetParam()]) {
    const Status written = write_toy_checkpoint(dir_.path(), toy_.spec);
    EXPECT_TRUE(written.ok()) << written.message();
  }
  Result<LoadedDecoder> open(std::optional<LayerRange> layers) const {
    CpuDecoderOptions options;
    options.layers = layers;
    options.activation = toy_.activation;
    options.weights = toy_.weights;
    options.kv_blocks = 11;
    return LoadedDecoder::open(dir_.path(), toy_.team_sizes, options);
  }
  OpenedStages open_stages(const std::vector<int32_t>& sizes, const ModelConfig& config) const {
    OpenedStages stages;
    const auto ranges = cut_layers(sizes, config);
    EXPECT_TRUE(ranges.ok());
    std::vector<Decoder*> decoders;
    for (const LayerRange& range : *ranges) {
      auto loaded = open(range);
      EXPECT_TRUE(loaded.ok()) << loaded.status().message();
      if (!loaded.ok()) return {};
      EXPECT_EQ(loaded->decoder->layers(), range);
      stages.loaded.push_back(std::move(*loaded));
      decoders.push_back(stages.loaded.back().decoder.get());
    }
    stages.chain = std::make_unique<ChainedStages>(std::move(decoders));
    return stages;
  }

  const TempDir dir_;
  const StageToy toy_;
};

TEST_P(DecoderStages, EveryCutGivesTheBitsOfTheWholeModel) {
  auto whole = open({});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const std::vector<float> expected = run_batches(*whole->decoder);
  ASSERT_FALSE(expected.empty());
  for (const std::vector<int32_t>& sizes : cuts()) {
    const OpenedStages stages = open_stages(sizes, whole->decoder->config());
    ASSERT_NE(stages.chain, nullptr);
    EXPECT_EQ(stages.chain->kv_block_bytes(), whole->decoder->kv_block_bytes());
    EXPECT_TRUE(run_batches(*stages.chain) == expected)
        << sizes.size() << " stages, the first of " << sizes.front();
  }
}

TEST_P(DecoderStages, NeedsOfStagesAddUp) {
  auto checkpoint = Checkpoint::open(dir_.path());
  ASSERT_TRUE(checkpoint.ok());
  const ModelConfig& config = checkpoint->config();
  const auto plan =
      make_shard_plan(config, static_cast<int32_t>(toy_.team_sizes.size()), config.vocab_size);
  ASSERT_TRUE(plan.ok());
  const auto sum_of = [&](const std::vector<LayerRange>& ranges) {
    MemoryNeed sum;
    for (const LayerRange& range : ranges) {
      for (const MemoryNeed& need :
           estimate_group_memory(*checkpoint, toy_.weights, toy_.activation, *plan, range)) {
        sum.weight_bytes += need.weight_bytes;
        sum.kv_block_bytes += need.kv_block_bytes;
      }
    }
    return sum;
  };
  const MemoryNeed whole = sum_of({LayerRange::all(config)});
  for (const std::vector<int32_t>& sizes : cuts()) {
    const MemoryNeed cut = sum_of(cut_layers(sizes, config).value());
    EXPECT_EQ(cut.kv_block_bytes, whole.kv_block_bytes);
    if (config.tied_embeddings) {
      // Both the first and the last stage may need the embedding.
      EXPECT_GE(cut.weight_bytes, whole.weight_bytes);
      EXPECT_LE(cut.weight_bytes,
                whole.weight_bytes + int64_t{4} * config.vocab_size * config.hidden_size);
    } else {
      EXPECT_NEAR(static_cast<double>(cut.weight_bytes), static_cast<double>(whole.weight_bytes),
                  1.0);
    }
  }
}

std::string stage_toy_name(const testing::TestParamInfo<size_t>& toy) {
  return stage_toys()[toy.param].name;
}
INSTANTIATE_TEST_SUITE_P(Toys, DecoderStages,
                         testing::Range(size_t{0}, stage_toys().size(), size_t{kSanitized ? 3 : 1}),
                         stage_toy_name);

TEST(DecoderStage, RefusesHiddenRowsThatAreNotTheSteps) {
  const TempDir dir;
  ToySpec spec;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  CpuDecoderOptions options;
  options.kv_blocks = 2;
  options.layers = LayerRange{1, 2, false, true};
  auto loaded = LoadedDecoder::open(dir.path(), 1, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const std::vector<int32_t> table = {1};
  Step step;
  step.sequences.push_back({table.data()});
  const std::vector<int32_t> tokens(3, -7);  // a stage that does not embed ignores tokens
  SequenceDriver::add_prefix_rows(step, 0, tokens, 0, true);
  const std::vector<std::byte> bytes(4 * 64 * 2);
  const auto refused = [&](const HiddenRows& hidden) {
    step.hidden = hidden;
    const Status status = loaded->decoder->forward(step);
    return status.code() == StatusCode::kInvalidArgument &&
           status.message().find("hidden rows") != std::string::npos;
  };
  const auto all = std::span<const std::byte>(bytes);
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({.dtype = DType::kBf16, .width = 64, .bytes = all}));
  EXPECT_TRUE(refused({.dtype = DType::kF32, .width = 64, .bytes = all.first(3 * 64 * 2)}));
  EXPECT_TRUE(refused({.dtype = DType::kBf16, .width = 32, .bytes = all.first(3 * 64 * 2)}));
  step.hidden = {.dtype = DType::kBf16, .width = 64, .bytes = all.first(3 * 64 * 2)};
  EXPECT_TRUE(loaded->decoder->forward(step).ok());

  options.layers = LayerRange{1, 3, false, true};
  const auto beyond = LoadedDecoder::open(dir.path(), 1, options);
  ASSERT_FALSE(beyond.ok());
  EXPECT_NE(beyond.status().message().find("layers 1 to 2 of 2"), std::string::npos)
      << beyond.status().message();
}

// Returns the mapped bytes of the file that are resident in this process.
int64_t resident_bytes(const std::string& file) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool in_file = false;
  int64_t kilobytes = 0;
  while (std::getline(maps, line)) {
    if (line.find('-') != std::string::npos && line.find(':') > line.find('-')) {
      in_file = line.find(file) != std::string::npos;
    } else if (in_file && line.rfind("Rss:", 0) == 0) {
      kilobytes += std::stoll(line.substr(4));
    }
  }
  return kilobytes * 1024;
}

TEST(DecoderStage, TouchesItsOwnLayersOnly) {
  const TempDir dir;
  ToySpec spec;
  spec.num_layers = kStageLayers;
  spec.hidden_size = 256;
  spec.intermediate_size = 1024;
  spec.vocab_size = 4096;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok());
  const ModelConfig& config = checkpoint->config();
  const std::string file = (dir.path() / "model.safetensors").string();
  const auto plan = make_shard_plan(config, 1, config.vocab_size);
  ASSERT_TRUE(plan.ok());
  CpuDecoderOptions options;
  options.activation = Activation::kF32;  // uses weights in place in the file
  options.kv_blocks = 4;
  options.layers = LayerRange{3, 5, false, false};
  auto loaded = LoadedDecoder::open(dir.path(), 1, options);
  ASSERT_TRUE(loaded.ok());
  const std::vector<int32_t> table = {1};
  const std::vector<std::byte> bytes(256 * sizeof(float));
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, std::vector<int32_t>{0}, 0, false);
  step.hidden = {.dtype = DType::kF32, .width = 256, .bytes = bytes};
  ASSERT_TRUE(loaded->decoder->forward(step).ok());
  const auto needs = [&](const LayerRange& layers) {
    return estimate_group_memory(*checkpoint, options.weights, options.activation, *plan, layers)
        .front()
        .weight_bytes;
  };
  const int64_t all = needs(LayerRange::all(config));
  const int64_t own = needs(*options.layers);
  ASSERT_LT(5 * own, 2 * all);
  const int64_t resident = resident_bytes(file);
  EXPECT_GE(resident, own / 2);  // the measurement does count the bytes read
  // The header is resident too, and so is what the kernel maps around a touched page: 64 KB at
  // either end.
  EXPECT_LE(resident, own + (int64_t{1} << 20));
}

}  // namespace
}  // namespace forerun
