// Tests taps, hidden rows that a forward pass keeps in the decoder's store. They must equal the
// reference's and have the bits that a stage which ends at the same layer hands on, for any rows,
// threads and devices. The logits must be those of a forward pass without taps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "model/reference_decoder.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kLayers = 4;
constexpr int32_t kTapTokens = 300;  // a Step of all of them has two chunks
constexpr int32_t kHidden = 64;

ToySpec toy_spec() {
  ToySpec spec;
  spec.num_layers = kLayers;
  spec.hidden_size = kHidden;
  return spec;
}

CpuDecoderOptions toy_options(Activation activation, std::vector<int32_t> after_layers) {
  CpuDecoderOptions options;
  options.activation = activation;
  options.kv_blocks = 6;
  options.taps = {.after_layers = std::move(after_layers), .places = kTapTokens + 7};
  return options;
}

const TapStore& taps_of(const LoadedDecoder& loaded) {
  return dynamic_cast<const CpuDecoder&>(*loaded.decoder).taps();
}

// Differs from the row's number, so that a store indexed by rows fails.
int32_t place_of(int32_t token_idx) { return kTapTokens + 6 - token_idx; }

enum class Which : uint8_t { kAll, kEveryThird, kWanted, kNone };

bool wants_logits(int32_t token_idx) { return token_idx % 5 == 4; }

bool is_kept(int32_t token_idx, Which which) {
  switch (which) {
    case Which::kAll:
      return true;
    case Which::kEveryThird:
      return token_idx % 3 == 0;
    case Which::kWanted:
      return wants_logits(token_idx);
    case Which::kNone:
      break;
  }
  return false;
}

// Runs toy tokens in Steps of `rows_per_step`, in which every fifth row wants logits, and keeps the
// taps of the rows that `which` names. Returns the logits.
std::vector<float> run_tapped(const LoadedDecoder& loaded, int32_t rows_per_step, Which which) {
  const std::vector<int32_t> tokens = toy_tokens(kTapTokens, loaded.decoder->config().vocab_size);
  const std::vector<int32_t> table = {3, 0, 5, 1, 4};
  std::vector<float> logits;
  for (int32_t begin = 0; begin < kTapTokens; begin += rows_per_step) {
    const int32_t count = std::min(rows_per_step, kTapTokens - begin);
    Step step;
    step.sequences.push_back({table.data()});
    SequenceDriver::add_prefix_rows(
        step, 0, std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
        begin, false);
    for (int32_t row = 0; row < count; ++row) {
      const int32_t token_idx = begin + row;
      step.rows[static_cast<size_t>(row)].wants_logits = wants_logits(token_idx);
      if (is_kept(token_idx, which)) step.taps.push_back({row, place_of(token_idx)});
    }
    const Status ran = loaded.decoder->forward(step);
    EXPECT_TRUE(ran.ok()) << ran.message();
    const std::vector<float> part = copy_logits(*loaded.decoder);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

LoadedDecoder open(const TempDir& dir, const std::vector<int32_t>& team_sizes,
                   CpuDecoderOptions options) {
  auto loaded = LoadedDecoder::open(dir.path(), team_sizes, std::move(options));
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return loaded.ok() ? std::move(*loaded) : LoadedDecoder();
}

TEST(Taps, MatchTheReference) {
  std::vector<ToySpec> specs = {toy_spec(), toy_spec(), toy_spec()};
  specs[1].family = "qwen2";
  specs[1].sliding_window = 40;
  specs[1].max_window_layers = 1;
  specs[2].family = "qwen3";
  specs[2].head_dim = 24;
  specs[2].tied = true;
  const std::vector<int32_t> after_layers = {3, 0, 1, kLayers};
  for (const ToySpec& spec : specs) {
    SCOPED_TRACE(spec.family);
    const TempDir dir;
    ASSERT_TRUE(write_toy_checkpoint(dir.path(), spec).ok());
    const LoadedDecoder loaded = open(dir, {2}, toy_options(Activation::kF32, after_layers));
    ASSERT_NE(loaded.decoder, nullptr);
    run_tapped(loaded, kTapTokens, Which::kAll);
    const TapStore& store = taps_of(loaded);
    ASSERT_EQ(store.width(), 4 * kHidden);
    const std::vector<int32_t> tokens = toy_tokens(kTapTokens, spec.vocab_size);
    for (size_t tap_idx = 0; tap_idx < after_layers.size(); ++tap_idx) {
      const std::vector<double> expected =
          reference_hidden(*loaded.checkpoint, tokens, after_layers[tap_idx]);
      double worst = 0.0;
      double squares = 0.0;
      for (int32_t token_idx = 0; token_idx < kTapTokens; ++token_idx) {
        const auto* const row = reinterpret_cast<const float*>(store.row(place_of(token_idx)));
        for (int32_t column = 0; column < kHidden; ++column) {
          const float found = row[tap_idx * kHidden + static_cast<size_t>(column)];
          const double wanted = expected[static_cast<size_t>(token_idx * kHidden + column)];
          ASSERT_TRUE(std::isfinite(found));
          worst = std::max(worst, std::fabs(found - wanted));
          squares += wanted * wanted;
        }
      }
      EXPECT_LE(worst / std::sqrt(squares / (kTapTokens * kHidden)), 2e-5)
          << "after " << after_layers[tap_idx] << " layers";
    }
  }
}

// Returns the hidden rows of all tokens after `after_layers` layers, as a stage hands them on.
std::vector<std::byte> rows_of_stage(const TempDir& dir, const std::vector<int32_t>& team_sizes,
                                     Activation activation, int32_t after_layers) {
  CpuDecoderOptions options = toy_options(activation, {});
  options.layers = LayerRange{0, after_layers, true, false};
  const LoadedDecoder stage = open(dir, team_sizes, std::move(options));
  const std::vector<int32_t> table = {3, 0, 5, 1, 4};
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(
      step, 0, toy_tokens(kTapTokens, stage.decoder->config().vocab_size), 0, false);
  EXPECT_TRUE(stage.decoder->forward(step).ok());
  const auto bytes = stage.decoder->hidden().bytes;
  return {bytes.begin(), bytes.end()};
}

TEST(Taps, AreTheHiddenRowsOfAStage) {
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), toy_spec()).ok());
  for (const Activation activation : {Activation::kF32, Activation::kBf16}) {
    for (const std::vector<int32_t>& team_sizes : {std::vector<int32_t>{1}, {3}, {1, 2}}) {
      SCOPED_TRACE(std::to_string(team_sizes.size()) + " devices of " +
                   std::to_string(team_sizes[0]) + " threads");
      const std::vector<std::byte> expected[] = {rows_of_stage(dir, team_sizes, activation, 1),
                                                 rows_of_stage(dir, team_sizes, activation, 3)};
      for (const int32_t rows_per_step : {1, 9, kTapTokens}) {
        const LoadedDecoder loaded = open(dir, team_sizes, toy_options(activation, {1, 3}));
        ASSERT_NE(loaded.decoder, nullptr);
        run_tapped(loaded, rows_per_step, Which::kEveryThird);
        const size_t row_bytes = expected[0].size() / kTapTokens;
        for (int32_t token_idx = 0; token_idx < kTapTokens; token_idx += 3) {
          const std::byte* const row = taps_of(loaded).row(place_of(token_idx));
          for (const size_t tap_idx : {0, 1}) {
            const std::byte* const wanted =
                expected[tap_idx].data() + static_cast<size_t>(token_idx) * row_bytes;
            ASSERT_EQ(std::memcmp(row + tap_idx * row_bytes, wanted, row_bytes), 0)
                << "token " << token_idx << ", tap " << tap_idx << ", rows " << rows_per_step;
          }
        }
      }
    }
  }
}

// Rows without logits leave the last layer early, unless there is a tap behind it.
TEST(Taps, ChangeNoLogitsAndNoOtherPlaceBehindAnyLayer) {
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), toy_spec()).ok());
  const std::vector<float> expected =
      run_tapped(open(dir, {2}, toy_options(Activation::kBf16, {})), kTapTokens, Which::kNone);
  const size_t row_bytes = kHidden * 2;
  for (const std::vector<int32_t>& after_layers :
       {std::vector<int32_t>{0}, {2, kLayers - 1}, {kLayers}}) {
    SCOPED_TRACE("after " + std::to_string(after_layers.back()));
    const size_t width = after_layers.size() * row_bytes;
    std::vector<std::byte> rows;  // taps of all tokens
    for (const Which which : {Which::kAll, Which::kEveryThird, Which::kWanted, Which::kNone}) {
      for (const int32_t rows_per_step : {kTapTokens, 7}) {
        const LoadedDecoder loaded = open(dir, {2}, toy_options(Activation::kBf16, after_layers));
        ASSERT_NE(loaded.decoder, nullptr);
        const TapStore& store = taps_of(loaded);
        std::memset(const_cast<std::byte*>(store.row(0)), 0x7f, static_cast<size_t>(store.bytes()));
        EXPECT_TRUE(run_tapped(loaded, rows_per_step, which) == expected);
        if (rows.empty()) {
          for (int32_t token_idx = 0; token_idx < kTapTokens; ++token_idx) {
            const std::byte* const row = store.row(place_of(token_idx));
            rows.insert(rows.end(), row, row + width);
          }
        }
        const std::vector<std::byte> untouched(width, std::byte{0x7f});
        for (int32_t token_idx = 0; token_idx < store.places(); ++token_idx) {
          const bool kept = token_idx < kTapTokens && is_kept(token_idx, which);
          const std::byte* const wanted =
              kept ? rows.data() + static_cast<size_t>(token_idx) * width : untouched.data();
          ASSERT_EQ(std::memcmp(store.row(place_of(token_idx)), wanted, width), 0)
              << "token " << token_idx << ", rows " << rows_per_step;
        }
      }
    }
  }
}

// Every device of a group has the whole stream. The embedding is a copy; later taps differ from one
// device's by the rounding of a group's sums.
TEST(Taps, OfGroupsAreNearThoseOfOneDevice) {
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), toy_spec()).ok());
  const LoadedDecoder one = open(dir, {2}, toy_options(Activation::kF32, {0, 2, kLayers}));
  run_tapped(one, kTapTokens, Which::kAll);
  for (const std::vector<int32_t>& team_sizes : {std::vector<int32_t>{1, 1}, {2, 1, 1}}) {
    for (const int32_t rows_per_step : {11, kTapTokens}) {
      const LoadedDecoder group =
          open(dir, team_sizes, toy_options(Activation::kF32, {0, 2, kLayers}));
      run_tapped(group, rows_per_step, Which::kAll);
      double squares = 0.0;
      double difference = 0.0;
      for (int32_t token_idx = 0; token_idx < kTapTokens; ++token_idx) {
        const auto* const row =
            reinterpret_cast<const float*>(taps_of(group).row(place_of(token_idx)));
        const auto* const wanted =
            reinterpret_cast<const float*>(taps_of(one).row(place_of(token_idx)));
        ASSERT_EQ(std::memcmp(row, wanted, kHidden * sizeof(float)), 0) << "token " << token_idx;
        for (int32_t column = 0; column < 3 * kHidden; ++column) {
          ASSERT_TRUE(std::isfinite(row[column]));
          squares += static_cast<double>(wanted[column]) * wanted[column];
          difference += std::pow(static_cast<double>(row[column]) - wanted[column], 2);
        }
      }
      EXPECT_LE(std::sqrt(difference / squares), 1e-5);
      EXPECT_GT(difference, 0.0) << "the sums of a group are to be others";
    }
  }
}

TEST(Taps, OfACutModelAreDividedAmongItsStages) {
  const TapOptions taps = {.after_layers = {3, 0, 2, 2, kLayers}, .places = 9};
  const LayerRange first{0, 2, true, false};
  const LayerRange middle{2, 3, false, false};
  const LayerRange last{3, kLayers, false, true};
  EXPECT_EQ(taps_of_stage(taps, first).after_layers, (std::vector<int32_t>{0, 2, 2}));
  EXPECT_EQ(taps_of_stage(taps, middle).after_layers, std::vector<int32_t>{3});
  EXPECT_EQ(taps_of_stage(taps, middle).places, 9);
  EXPECT_EQ(taps_of_stage(taps, last).after_layers, taps.after_layers);
  EXPECT_EQ(taps_in_front(taps.after_layers, last), (std::vector<size_t>{1, 2, 3, 0}));
  const TapOptions none = taps_of_stage({.after_layers = {1}, .places = 9}, middle);
  EXPECT_TRUE(none.after_layers.empty());
  EXPECT_EQ(none.places, 0);
  EXPECT_TRUE(taps_in_front(taps.after_layers, {0, kLayers, true, true}).empty());
}

TEST(Taps, RefuseWhatIsNotThere) {
  const TempDir dir;
  ASSERT_TRUE(write_toy_checkpoint(dir.path(), toy_spec()).ok());
  const auto refusal = [&](std::vector<int32_t> after_layers, int64_t places,
                           std::optional<LayerRange> layers) {
    CpuDecoderOptions options = toy_options(Activation::kF32, std::move(after_layers));
    options.taps.places = places;
    options.layers = layers;
    return LoadedDecoder::open(dir.path(), 1, std::move(options)).status().message();
  };
  const LayerRange middle{1, 3, false, false};
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(
      has(refusal({1, 5}, 4, {}), "taps: found one after 5 layers; accepted: after 0 to 4 layers"));
  EXPECT_TRUE(has(refusal({-1}, 4, {}), "taps: found one after -1 layers"));
  EXPECT_TRUE(has(refusal({1}, 4, middle), "accepted: after 2 to 3 layers, in layers 1 to 2 of 4"));
  EXPECT_EQ(refusal({2, 3}, 4, middle), "");
  // The last stage has room for the taps in front of its layers.
  const LayerRange last{2, kLayers, false, true};
  EXPECT_EQ(refusal({4, 0, 2}, 4, last), "");
  EXPECT_TRUE(has(refusal({5}, 4, last), "accepted: after 0 to 4 layers, in layers 2 to 3 of 4"));
  EXPECT_TRUE(has(refusal({1}, 0, {}), "taps: found a store of 0 places; accepted: 1 to"));

  const LoadedDecoder none = open(dir, {1}, toy_options(Activation::kF32, {}));
  const LoadedDecoder some = open(dir, {1}, toy_options(Activation::kF32, {1}));
  const std::vector<int32_t> table = {0};
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, std::vector<int32_t>{1, 2, 3}, 0, true);
  step.taps = {{0, 5}, {2, 4}};
  EXPECT_TRUE(some.decoder->forward(step).ok());
  EXPECT_TRUE(has(none.decoder->forward(step).message(), "found taps of 2 rows; accepted: none"));
  step.taps = {{1, 5}, {1, 4}};
  EXPECT_TRUE(has(some.decoder->forward(step).message(), "found row 1; accepted: 2 to 2"));
  step.taps = {{3, 5}};
  EXPECT_TRUE(has(some.decoder->forward(step).message(), "found row 3; accepted: 0 to 2"));
  step.taps = {{2, kTapTokens + 7}};
  EXPECT_TRUE(has(some.decoder->forward(step).message(), "step row 2: place of its taps 307"));
}

}  // namespace
}  // namespace forerun
