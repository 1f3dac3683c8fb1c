// Tests taps of a model with stages: the store of the last stage must hold the same bits as the
// whole model's, and no other result may change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "checkpoint/testing.h"
#include "exec/decoder_step_runner.h"
#include "exec/stages/stage_pipeline.h"
#include "exec/stages/stage_threads.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kCutLayers = 4;
constexpr int32_t kCutTokens = 90;
constexpr int64_t kCutPlaces = kCutTokens + 5;
constexpr int32_t kCutVocab = 256;

// Differs from the row's number, so that a store indexed by rows fails.
int32_t place_of_token(int32_t token_idx) { return kCutTokens + 4 - token_idx; }

struct CutModel {
  CutModel(const TempDir& dir, const std::vector<int32_t>& layers,
           const std::vector<int32_t>& team_sizes, Activation activation, const TapOptions& taps) {
    const auto checkpoint = Checkpoint::open(dir.path());
    const auto ranges = cut_layers(layers, checkpoint->config());
    for (const LayerRange& range : *ranges) {
      CpuDecoderOptions options;
      options.layers = range;
      options.activation = activation;
      options.kv_blocks = 4;
      options.taps = taps_of_stage(taps, range);
      auto loaded = LoadedDecoder::open(dir.path(), team_sizes, options);
      EXPECT_TRUE(loaded.ok()) << loaded.status().message();
      stages.push_back(std::move(*loaded));
    }
    if (stages.size() == 1) {
      runner = std::make_unique<DecoderStepRunner>(stages.front().decoder.get(),
                                                   stages.front().devices.get(), kCutVocab);
      return;
    }
    std::vector<PipelineStage> parts;
    for (const LoadedDecoder& stage : stages) {
      parts.push_back({stage.decoder.get(), stage.devices.get()});
    }
    runner = std::make_unique<StagePipeline>(std::make_unique<StageThreads>(parts, kCutVocab));
  }

  // Runs the tokens in Steps of this many rows. Every `stride`-th row keeps its taps; 0 for none.
  // Returns the tokens that are sampled behind every fifth row.
  std::vector<TokenId> run(int32_t rows_per_step, int32_t stride) {
    const std::vector<int32_t> tokens = toy_tokens(kCutTokens, kCutVocab);
    const std::vector<int32_t> table = {2, 0};
    SamplingParams greedy;
    greedy.temperature = 0.0f;
    std::vector<TokenId> sampled;
    for (int32_t begin = 0; begin < kCutTokens; begin += rows_per_step) {
      const int32_t count = std::min(rows_per_step, kCutTokens - begin);
      Step step;
      step.sequences.push_back({table.data()});
      SequenceDriver::add_prefix_rows(
          step, 0,
          std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), begin,
          false);
      std::vector<RowTask> tasks;
      std::vector<RowResult> results(static_cast<size_t>(count));
      for (int32_t row = 0; row < count; ++row) {
        const int32_t token_idx = begin + row;
        if (stride > 0 && token_idx % stride == 0) {
          step.taps.push_back({row, place_of_token(token_idx)});
        }
        if (token_idx % 5 != 4) continue;
        step.rows[static_cast<size_t>(row)].wants_logits = true;
        RowTask& task = tasks.emplace_back();
        task.want = Want::kSample;
        task.step_row = row;
        task.logits_row = static_cast<int32_t>(tasks.size()) - 1;
        task.context.params = &greedy;
        task.context.position = token_idx + 1;
        task.result = &results[static_cast<size_t>(row)];
      }
      const Status ran = runner->run(step, tasks, {}, {});
      EXPECT_TRUE(ran.ok()) << ran.message();
      for (const RowTask& task : tasks) sampled.push_back(task.result->token);
    }
    return sampled;
  }

  TapStore& store() const {
    return const_cast<TapStore&>(dynamic_cast<const CpuDecoder&>(*stages.back().decoder).taps());
  }

  std::vector<LoadedDecoder> stages;
  std::unique_ptr<StepRunner> runner;
};

std::vector<std::byte> bytes_of(const TapStore& store) {
  return {store.row(0), store.row(0) + store.bytes()};
}

class StageTaps : public testing::TestWithParam<Activation> {
 protected:
  StageTaps() {
    ToySpec spec;
    spec.num_layers = kCutLayers;
    EXPECT_TRUE(write_toy_checkpoint(dir_.path(), spec).ok());
  }

  const TempDir dir_;
};

TEST_P(StageTaps, AreThoseOfTheWholeModel) {
  // Covers unordered taps, two taps at one layer, and all taps within one stage.
  for (const std::vector<int32_t>& after_layers :
       {std::vector<int32_t>{3, 0, 1, kCutLayers}, {2, 1, 2}, {kCutLayers}, {0, 1}}) {
    const TapOptions taps = {.after_layers = after_layers, .places = kCutPlaces};
    for (const std::vector<int32_t>& team_sizes : {std::vector<int32_t>{1}, {1, 2}}) {
      if (kSanitized && team_sizes.size() == 1) continue;
      CutModel whole(dir_, {kCutLayers}, team_sizes, GetParam(), taps);
      std::memset(whole.store().tap(0, 0), 0x5a, static_cast<size_t>(whole.store().bytes()));
      const std::vector<TokenId> sampled = whole.run(kCutTokens, 3);
      for (const std::vector<int32_t>& layers :
           {std::vector<int32_t>{2, 2}, {1, 3}, {3, 1}, {1, 1, 1, 1}}) {
        for (const int32_t rows_per_step : {7, kCutTokens}) {
          SCOPED_TRACE("tap after " + std::to_string(after_layers[0]) + ", stage of " +
                       std::to_string(layers[0]) + ", rows " + std::to_string(rows_per_step));
          CutModel cut(dir_, layers, team_sizes, GetParam(), taps);
          EXPECT_EQ(cut.runner->tap_places(), kCutPlaces);
          std::memset(cut.store().tap(0, 0), 0x5a, static_cast<size_t>(cut.store().bytes()));
          EXPECT_EQ(cut.run(rows_per_step, 3), sampled);
          EXPECT_TRUE(bytes_of(cut.store()) == bytes_of(whole.store()));
          EXPECT_EQ(cut.run(rows_per_step, 0), sampled);
          EXPECT_TRUE(bytes_of(cut.store()) == bytes_of(whole.store()));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StageTaps, testing::Values(Activation::kF32, Activation::kBf16),
                         [](const auto& tested) {
                           return tested.param == Activation::kF32 ? "f32" : "bf16";
                         });

// Checks the messages between stages: rows without taps add nothing to them.
TEST(StageTapMessages, HoldWhatStagesHaveKept) {
  const TempDir dir;
  ToySpec spec;
  spec.num_layers = kCutLayers;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const TapOptions taps = {.after_layers = {3, 0, 1}, .places = kCutPlaces};
  const CutModel tapped(dir, {1, 1, 1, 1}, {1}, Activation::kBf16, taps);
  const CutModel plain(dir, {1, 1, 1, 1}, {1}, Activation::kBf16, {});
  const std::vector<int32_t> table = {1};
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, std::vector<int32_t>{5, 6, 7, 8}, 0, false);
  const size_t row_bytes = static_cast<size_t>(spec.hidden_size) * 2;
  for (const size_t kept : {0, 2}) {
    step.taps.clear();
    if (kept > 0) step.taps = {{1, 9}, {3, 4}};
    StageMessage message, expected;
    message.step = expected.step = 1;
    message.add_rows(step);
    step.taps.clear();
    expected.add_rows(step);
    // The stages have taps after the embedding and one layer, none, and after three layers.
    const size_t taps_of_each[] = {2, 2, 3};
    for (const int32_t stage : {0, 1, 2}) {
      const CancelledRows none;
      for (const auto& [model, to] : {std::pair(&tapped, &message), {&plain, &expected}}) {
        const LoadedDecoder& loaded = model->stages[static_cast<size_t>(stage)];
        StageWorker worker({loaded.decoder.get(), loaded.devices.get()}, stage, 4, kCutVocab);
        const Status ran = worker.run(*to, {}, none, {}, {});
        ASSERT_TRUE(ran.ok()) << ran.message();
      }
      EXPECT_TRUE(message.hidden == expected.hidden);
      EXPECT_EQ(message.taps.size(), kept);
      EXPECT_EQ(message.kept_taps.size(), kept * taps_of_each[stage] * row_bytes);
    }
    for (size_t tap = 0; tap < kept; ++tap) {
      const auto row = static_cast<size_t>(message.taps[tap].row);
      EXPECT_EQ(std::memcmp(&message.kept_taps[(tap * 3 + 2) * row_bytes],
                            &message.hidden[row * row_bytes], row_bytes),
                0)
          << "the last tap is what the third stage hands on";
    }
  }
}

TEST(StageTapMessages, OfAnotherSizeAreRefused) {
  const TempDir dir;
  ToySpec spec;
  spec.num_layers = kCutLayers;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
  const CutModel cut(dir, {2, 2}, {1}, Activation::kBf16,
                     {.after_layers = {1, 3}, .places = kCutPlaces});
  Decoder& last = *cut.stages.back().decoder;
  const std::vector<StepTap> taps = {{0, 3}, {1, 7}};
  const size_t row_bytes = static_cast<size_t>(spec.hidden_size) * 2;
  std::vector<std::byte> rows(2 * row_bytes);
  EXPECT_TRUE(last.write_taps(taps, rows).ok());
  rows.pop_back();
  EXPECT_NE(last.write_taps(taps, rows)
                .message()
                .find("taps of earlier stages: found 255 bytes for 2 rows; accepted: 256"),
            std::string::npos)
      << last.write_taps(taps, rows).message();
  const std::vector<StepTap> beyond = {{0, static_cast<int32_t>(kCutPlaces)}};
  EXPECT_EQ(last.write_taps(beyond, std::span(rows).first(row_bytes)).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun
