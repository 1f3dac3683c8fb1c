// Tests taps on GPUs. They must be near the CPU's and have the bits that a stage which ends at the
// same layer hands on, whatever rows run beside them; the same holds if stages hand them on. A
// forward pass without taps must equal that of a decoder without a store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/testing.h"
#include "device/cuda/cuda_testing.h"
#include "model/cuda/decoder.h"
#include "model/cuda/layer_chain.h"
#include "model/testing.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kLayers = 4;
constexpr int32_t kTokens = 150;
constexpr int32_t kHidden = 128;
constexpr int32_t kPlaces = kTokens + 7;

// Differs from the row's number, so that a store indexed by rows fails.
int32_t place_of(int32_t token_idx) { return kTokens + 6 - token_idx; }

class TapsCuda : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPUS((GetParam() + 1) / 2);
    const int32_t gpus = gpus_of_sm90();
    for (int32_t rank = 0; rank < GetParam(); ++rank) devices_.push_back(rank % gpus);
    ToySpec spec;
    spec.num_layers = kLayers;
    spec.hidden_size = kHidden;
    spec.dtype = DType::kBf16;
    ASSERT_TRUE(write_toy_checkpoint(dir_.path(), spec).ok());
    auto checkpoint = Checkpoint::open(dir_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    checkpoint_ = std::make_unique<Checkpoint>(std::move(*checkpoint));
    tokens_ = toy_tokens(kTokens, spec.vocab_size);
  }

  std::unique_ptr<DecoderCuda> load(std::vector<int32_t> after_layers,
                                    std::optional<LayerRange> layers = {}) {
    DecoderCudaOptions options;
    options.devices = devices_;
    options.layers = layers;
    options.kv_blocks = 6;
    options.taps = {.after_layers = std::move(after_layers), .places = kPlaces};
    auto decoder = DecoderCuda::load(*checkpoint_, options);
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    return decoder.ok() ? std::move(*decoder) : nullptr;
  }

  // Returns rows [begin, begin + count) of the prompt; every fifth wants logits, every `stride`-th
  // keeps its taps.
  Step step_of(int32_t begin, int32_t count, int32_t stride) const {
    Step step;
    step.sequences.push_back({table_});
    SequenceDriver::add_prefix_rows(
        step, 0, std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
        begin, false);
    for (int32_t row = 0; row < count; ++row) {
      const int32_t token_idx = begin + row;
      step.rows[static_cast<size_t>(row)].wants_logits = token_idx % 5 == 4;
      if (stride > 0 && token_idx % stride == 0) step.taps.push_back({row, place_of(token_idx)});
    }
    return step;
  }

  // Runs the prompt in Steps of this many rows. Returns the logits.
  std::vector<float> run(Decoder& decoder, int32_t rows_per_step, int32_t stride) const {
    std::vector<float> logits;
    for (int32_t begin = 0; begin < kTokens; begin += rows_per_step) {
      const Status ran =
          decoder.forward(step_of(begin, std::min(rows_per_step, kTokens - begin), stride));
      EXPECT_TRUE(ran.ok()) << ran.message();
      const std::vector<float> part = copy_logits(decoder);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  static std::vector<uint16_t> download(const DecoderCuda& decoder, int32_t place) {
    std::vector<bf16> row(static_cast<size_t>(decoder.taps().width()));
    const Status read = decoder.taps().download(place, row);
    EXPECT_TRUE(read.ok()) << read.message();
    std::vector<uint16_t> bits;
    for (const bf16 value : row) bits.push_back(value.bits);
    return bits;
  }

  // Returns the kernels of a pass of eight rows, in order.
  std::string kernels(DecoderCuda& decoder, int32_t stride) const {
    std::mutex mutex;
    std::string first;
    decoder.shard(0).edit_graphs([&](cudaGraph_t graph) -> Status {
      auto found = list_kernels(graph, kLayers);
      if (!found.ok()) return found.status();
      const std::lock_guard lock(mutex);
      first = std::move(*found);
      return {};
    });
    const Status ran = decoder.forward(step_of(0, 8, stride));
    EXPECT_TRUE(ran.ok()) << ran.message();
    return first;
  }

  const TempDir dir_;
  const int32_t table_[3] = {3, 0, 5};
  std::vector<int32_t> devices_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<int32_t> tokens_;
};

TEST_P(TapsCuda, AreNearTheCpus) {
  const std::vector<int32_t> after_layers = {3, 0, 1, kLayers};
  CpuDecoderOptions options;
  options.kv_blocks = 6;
  options.taps = {.after_layers = after_layers, .places = kPlaces};
  const auto cpu = LoadedDecoder::open(dir_.path(), 2, options);
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  const auto decoder = load(after_layers);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->tap_places(), kPlaces);
  run(*cpu->decoder, kTokens, 1);
  run(*decoder, kTokens, 1);
  const TapStore& expected = dynamic_cast<const CpuDecoder&>(*cpu->decoder).taps();
  double square = 0.0;
  double norm = 0.0;
  for (int32_t token_idx = 0; token_idx < kTokens; ++token_idx) {
    const std::vector<uint16_t> found = download(*decoder, place_of(token_idx));
    ASSERT_EQ(found.size(), 4 * size_t{kHidden});
    const auto* const row = reinterpret_cast<const bf16*>(expected.row(place_of(token_idx)));
    for (size_t i = 0; i < found.size(); ++i) {
      const auto wanted = static_cast<double>(to_float(row[i]));
      const double difference = static_cast<double>(to_float(bf16{found[i]})) - wanted;
      ASSERT_TRUE(std::isfinite(difference));
      // The second tap is the embedding, which is a copy.
      if (i / kHidden == 1) {
        ASSERT_EQ(difference, 0.0);
      }
      square += difference * difference;
      norm += wanted * wanted;
    }
  }
  EXPECT_LT(std::sqrt(square / norm), 2e-2);
}

TEST_P(TapsCuda, AreTheHiddenRowsOfAStage) {
  std::vector<std::vector<std::byte>> expected;
  for (const int32_t end : {1, 3}) {
    const auto stage = load({}, LayerRange{0, end, true, false});
    ASSERT_NE(stage, nullptr);
    ASSERT_TRUE(stage->forward(step_of(0, kTokens, 0)).ok());
    const auto bytes = stage->hidden().bytes;
    expected.emplace_back(bytes.begin(), bytes.end());
  }
  constexpr size_t kRowBytes = kHidden * sizeof(bf16);
  for (const int32_t rows_per_step : {1, 9, 40, kTokens}) {
    const auto decoder = load({1, 3});
    ASSERT_NE(decoder, nullptr);
    run(*decoder, rows_per_step, 3);
    for (int32_t token_idx = 0; token_idx < kTokens; token_idx += 3) {
      const std::vector<uint16_t> row = download(*decoder, place_of(token_idx));
      for (const size_t tap_idx : {0, 1}) {
        ASSERT_EQ(std::memcmp(row.data() + tap_idx * kHidden,
                              expected[tap_idx].data() + static_cast<size_t>(token_idx) * kRowBytes,
                              kRowBytes),
                  0)
            << "token " << token_idx << ", tap " << tap_idx << ", rows " << rows_per_step;
      }
    }
  }
}

TEST_P(TapsCuda, OfEarlierStagesAreHandedOn) {
  const std::vector<int32_t> after_layers = {3, 0, 1, 2, kLayers};
  const auto whole = load(after_layers);
  ASSERT_NE(whole, nullptr);
  run(*whole, kTokens, 1);
  const std::vector<StepTap> one = {{0, 1}};
  std::vector<std::byte> kept;
  EXPECT_EQ(whole->read_taps(one, kept).code(), StatusCode::kUnsupported);
  for (const int32_t cut : {1, 2, 3}) {
    const LayerRange first{0, cut, true, false};
    const LayerRange last{cut, kLayers, false, true};
    const TapOptions of_first =
        taps_of_stage({.after_layers = after_layers, .places = kPlaces}, first);
    // kTokens are more than one launch copies.
    for (const int32_t rows_per_step : {9, kTokens}) {
      SCOPED_TRACE("cut " + std::to_string(cut) + ", rows " + std::to_string(rows_per_step));
      const auto earlier = load(of_first.after_layers, first);
      const auto later = load(after_layers, last);
      ASSERT_TRUE(earlier && later);
      for (int32_t begin = 0; begin < kTokens; begin += rows_per_step) {
        Step step = step_of(begin, std::min(rows_per_step, kTokens - begin), 1);
        ASSERT_TRUE(earlier->forward(step).ok());
        kept.clear();
        ASSERT_TRUE(earlier->read_taps(step.taps, kept).ok());
        step.hidden = earlier->hidden();
        const Status written = later->write_taps(step.taps, kept);
        ASSERT_TRUE(written.ok()) << written.message();
        ASSERT_TRUE(later->forward(step).ok());
      }
      for (int32_t token_idx = 0; token_idx < kTokens; ++token_idx) {
        ASSERT_EQ(download(*later, place_of(token_idx)), download(*whole, place_of(token_idx)))
            << "token " << token_idx;
      }
      EXPECT_EQ(later->write_taps(one, {}).code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST_P(TapsCuda, ChangeNoLogitsAndNoOtherPlace) {
  const auto plain = load({});
  ASSERT_NE(plain, nullptr);
  const std::vector<float> expected = run(*plain, kTokens, 0);
  const auto decoder = load({0, 2, kLayers});
  ASSERT_NE(decoder, nullptr);
  EXPECT_TRUE(run(*decoder, kTokens, 1) == expected);
  std::vector<std::vector<uint16_t>> rows;
  for (int32_t place = 0; place < kPlaces; ++place) rows.push_back(download(*decoder, place));
  for (const int32_t rows_per_step : {1, 7, kTokens}) {
    EXPECT_TRUE(run(*decoder, rows_per_step, 4) == expected) << rows_per_step;
    for (int32_t place = 0; place < kPlaces; ++place) {
      ASSERT_TRUE(download(*decoder, place) == rows[static_cast<size_t>(place)])
          << "place " << place << ", rows " << rows_per_step;
    }
  }
}

TEST_P(TapsCuda, PassesWithoutThemLaunchWhatTheyAlwaysDid) {
  if (GetParam() > 1) GTEST_SKIP() << "the graphs of shared GPUs are edited themselves";
  const auto plain = load({});
  const auto decoder = load({0, 2, kLayers});
  ASSERT_TRUE(plain && decoder);
  const std::string expected = kernels(*plain, 0);
  EXPECT_EQ(kernels(*decoder, 0), expected);
  const std::string tapped = kernels(*decoder, 1);
  size_t taps = 0;
  for (size_t at = 0; (at = tapped.find("keep_taps", at)) != std::string::npos; ++at) ++taps;
  EXPECT_EQ(taps, 3) << tapped;
  EXPECT_EQ(expected.find("keep_taps"), std::string::npos);
}

TEST_P(TapsCuda, RefuseWhatIsNotThere) {
  DecoderCudaOptions options;
  options.devices = devices_;
  options.kv_blocks = 2;
  options.taps = {.after_layers = {1, kLayers + 1}, .places = 4};
  EXPECT_NE(DecoderCuda::load(*checkpoint_, options)
                .status()
                .message()
                .find("taps: found one after 5 layers; accepted: after 0 to 4 layers"),
            std::string::npos);
  options.taps = {.after_layers = {1}, .places = int64_t{1} << 30};
  EXPECT_EQ(DecoderCuda::load(*checkpoint_, options).status().code(),
            StatusCode::kResourceExhausted);
  const auto plain = load({});
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->forward(step_of(0, 8, 1)).code(), StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Groups, TapsCuda, testing::Values(1, 2),
                         [](const auto& tested) { return "on_" + std::to_string(tested.param); });

}  // namespace
}  // namespace forerun::cuda
