// Compares an EAGLE-3 head on CPUs with plain loops in double, which start from the target's own
// hidden states: prefixes in one Step and in several, trees behind them, every flag and layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/toy_gguf.h"
#include "checkpoint/testing.h"
#include "model/head_rows_rig.h"
#include "model/reference_decoder.h"
#include "model/testing.h"

namespace forerun {
namespace {

using Vector = std::vector<double>;
using Norm = Eagle3Config::NormOfTaps;

Vector read_all(const RawTensor* tensor) {
  if (tensor == nullptr) return {};
  int64_t count = 1;
  for (const int64_t extent : tensor->shape) count *= extent;
  const int64_t width = tensor->shape.back();
  std::vector<float> row(static_cast<size_t>(width));
  Vector all;
  for (int64_t begin = 0; begin < count; begin += width) {
    widen(*tensor, begin, width, row.data());
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

Vector times(const Vector& weight, const Vector& x) {
  Vector y(weight.size() / x.size(), 0.0);
  for (size_t out = 0; out < y.size(); ++out) {
    for (size_t in = 0; in < x.size(); ++in) y[out] += weight[out * x.size() + in] * x[in];
  }
  return y;
}

Vector normed(const Vector& x, const Vector& weight, double eps) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] * weight[i] / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  }
  return y;
}

Vector slice(const Vector& x, size_t begin, size_t size) {
  const auto from = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + static_cast<std::ptrdiff_t>(size)};
}

// The published module, which runs one row at a time and takes the list of rows to attend to.
class ReferenceHead {
 public:
  ReferenceHead(const Checkpoint& head, const Checkpoint& target) : head_(head), target_(target) {}

  struct Output {
    Vector feature;  // feature that the next row starts from
    Vector logits;   // [kHeadVocab], -infinity for tokens that the head does not know
  };
  // Appends a row with this feature that attends to the rows `seen` and to itself.
  Output run(int32_t token, const Vector& feature, int32_t position, std::vector<size_t> seen) {
    const ModelConfig& config = head_.config();
    const double eps = config.rms_norm_eps;
    const Checkpoint& embeds = config.eagle3->own_embedding ? head_ : target_;
    const auto width = static_cast<size_t>(config.hidden_size);
    const Vector embedding = slice(read_all(embeds.weight({ModuleKind::kEmbedding})),
                                   static_cast<size_t>(token) * width, width);
    seen.push_back(rows_++);
    Vector x = feature;
    for (int32_t layer = 0; layer < config.num_layers; ++layer) {
      const auto weight = [&](ModuleKind kind) { return read_all(head_.weight({kind, layer})); };
      Vector input = normed(layer == 0 ? embedding : x, weight(ModuleKind::kInputNorm), eps);
      if (layer == 0) {
        const Vector hidden = normed(x, weight(ModuleKind::kHiddenNorm), eps);
        input.insert(input.end(), hidden.begin(), hidden.end());
        if (config.eagle3->norm_before_residual) x = hidden;
      }
      add(x, times(weight(ModuleKind::kO), attend(input, layer, position, seen)));
      const Vector mlp_input = normed(x, weight(ModuleKind::kPostAttentionNorm), eps);
      Vector gate = times(weight(ModuleKind::kGate), mlp_input);
      const Vector up = times(weight(ModuleKind::kUp), mlp_input);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add(x, times(weight(ModuleKind::kDown), gate));
    }
    const Vector last = normed(x, read_all(head_.weight({ModuleKind::kFinalNorm})), eps);
    return {config.eagle3->feeds_back_normalized ? last : x, logits_of(last)};
  }

  // Returns the projection of taps, side by side.
  Vector feature_of(Vector taps) const {
    const ModelConfig& config = head_.config();
    const double eps = config.rms_norm_eps;
    if (config.eagle3->norm_of_taps == Norm::kTogether) {
      taps = normed(taps, read_all(head_.weight({ModuleKind::kTapNorms})), eps);
    } else if (config.eagle3->norm_of_taps == Norm::kEach) {
      const size_t third = taps.size() / 3;
      Vector all;
      size_t begin = 0;
      for (const ModuleKind kind :
           {ModuleKind::kTapNormLow, ModuleKind::kTapNormMiddle, ModuleKind::kTapNormHigh}) {
        const Vector part = normed(slice(taps, begin, third), read_all(head_.weight({kind})), eps);
        all.insert(all.end(), part.begin(), part.end());
        begin += third;
      }
      taps = std::move(all);
    }
    return times(read_all(head_.weight({ModuleKind::kTapProjection})), taps);
  }

 private:
  static void add(Vector& to, const Vector& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
  Vector logits_of(const Vector& normalized) const {
    const Checkpoint& source = head_.config().eagle3->own_head ? head_ : target_;
    const bool tied = source.config().tied_embeddings;
    const Vector own = times(
        read_all(source.weight({tied ? ModuleKind::kEmbedding : ModuleKind::kHead})), normalized);
    const auto tokens = head_.draft_tokens();
    Vector logits(kHeadVocab, -INFINITY);
    for (size_t row = 0; row < own.size(); ++row) {
      logits[tokens.empty() ? row : static_cast<size_t>(tokens[row])] = own[row];
    }
    return logits;
  }
  Vector attend(const Vector& input, int32_t layer, int32_t position,
                const std::vector<size_t>& seen) {
    const ModelConfig& config = head_.config();
    const auto dim = static_cast<size_t>(config.head_dim);
    const auto weight = [&](ModuleKind kind) { return read_all(head_.weight({kind, layer})); };
    const auto rotated = [&](Vector x, ModuleKind norm) {
      const Vector scale = read_all(head_.weight({norm, layer}));
      for (size_t begin = 0; begin < x.size(); begin += dim) {
        if (!scale.empty()) {
          const Vector one = normed(slice(x, begin, dim), scale, config.rms_norm_eps);
          std::copy(one.begin(), one.end(), x.begin() + static_cast<std::ptrdiff_t>(begin));
        }
        for (size_t pair = 0; pair < dim / 2; ++pair) {
          const double angle =
              position * std::pow(config.rope_theta,
                                  -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
          const double low = x[begin + pair];
          const double high = x[begin + pair + dim / 2];
          x[begin + pair] = low * std::cos(angle) - high * std::sin(angle);
          x[begin + pair + dim / 2] = high * std::cos(angle) + low * std::sin(angle);
        }
      }
      return x;
    };
    const Vector q = rotated(times(weight(ModuleKind::kQ), input), ModuleKind::kQNorm);
    if (kv_.size() <= static_cast<size_t>(layer)) kv_.emplace_back();
    auto& [keys, values] = kv_[static_cast<size_t>(layer)];
    keys.push_back(rotated(times(weight(ModuleKind::kK), input), ModuleKind::kKNorm));
    values.push_back(times(weight(ModuleKind::kV), input));
    const size_t group = static_cast<size_t>(config.num_heads / config.num_kv_heads);
    Vector out(q.size(), 0.0);
    for (size_t begin = 0; begin < q.size(); begin += dim) {
      const size_t kv = begin / dim / group * dim;
      Vector weights;
      double sum = 0.0;
      for (const size_t row : seen) {
        double score = 0.0;
        for (size_t i = 0; i < dim; ++i) score += q[begin + i] * keys[row][kv + i];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
        sum += weights.back();
      }
      for (size_t place = 0; place < seen.size(); ++place) {
        for (size_t i = 0; i < dim; ++i) {
          out[begin + i] += weights[place] / sum * values[seen[place]][kv + i];
        }
      }
    }
    return out;
  }

  const Checkpoint& head_;
  const Checkpoint& target_;
  size_t rows_ = 0;
  std::vector<std::pair<std::vector<Vector>, std::vector<Vector>>> kv_;  // by layer; by row
};

std::vector<HeadCase> cases() { return head_cases(ToySpec()); }

// Returns max |found - expected| over the root mean square of the expected values; infinite values
// must agree.
double difference(const float* found, const Vector& expected) {
  double worst = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isinf(expected[i])) {
      if (found[i] != -INFINITY) return INFINITY;
      continue;
    }
    if (!std::isfinite(found[i])) return INFINITY;
    worst = std::max(worst, std::fabs(found[i] - expected[i]));
    squares += expected[i] * expected[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(expected.size()));
}

class Eagle3 : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    const HeadCase tested = cases()[GetParam()];
    ASSERT_TRUE(write_toy_checkpoint(target_dir_.path(), tested.target).ok());
    ASSERT_TRUE(write_toy_checkpoint(head_dir_.path(), tested.head).ok());
    auto head = Checkpoint::open_eagle3(head_dir_.path());
    ASSERT_TRUE(head.ok()) << head.status().message();
    head_ = std::make_unique<Checkpoint>(std::move(*head));
    tokens_ = toy_tokens(kHeadTokens + 4, kHeadVocab);
  }

  void load(int32_t threads, std::optional<int32_t> live_vocab = {}) {
    auto checkpoint = Checkpoint::open(target_dir_.path());
    ASSERT_TRUE(checkpoint.ok());
    taps_ = fit_eagle3(head_->config(), checkpoint->config()).value();
    CpuDecoderOptions options;
    options.activation = Activation::kF32;
    options.kv_blocks = 2;
    options.taps = {.after_layers = taps_, .places = kTargetPlaces};
    auto target = LoadedDecoder::open(target_dir_.path(), threads, options);
    ASSERT_TRUE(target.ok()) << target.status().message();
    target_ = std::move(*target);
    options.target = target_.checkpoint.get();
    options.target_taps = &dynamic_cast<const CpuDecoder&>(*target_.decoder).taps();
    options.taps = {.after_layers = {head_->config().num_layers}, .places = kOwnPlaces};
    options.live_vocab = live_vocab;
    devices_ = std::move(*CpuDeviceGroup::create_unpinned({threads}));
    auto decoder = CpuDecoder::load(*head_, devices_.get(), options);
    ASSERT_TRUE(decoder.ok()) << decoder.status().message();
    decoder_ = std::move(*decoder);
  }

  void read_text() {
    const std::vector<int32_t> table = {1, 0};
    ASSERT_TRUE(target_.decoder->forward(text_step(tokens_, table)).ok());
  }

  const TempDir target_dir_, head_dir_;
  std::unique_ptr<Checkpoint> head_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> taps_;
  LoadedDecoder target_;
  std::unique_ptr<CpuDeviceGroup> devices_;
  std::unique_ptr<Decoder> decoder_;
};

TEST_P(Eagle3, PrefixAndTreeMatchTheModule) {
  load(1);
  ASSERT_NE(decoder_, nullptr);
  ReferenceHead reference(*head_, *target_.checkpoint);
  std::vector<Vector> taps(kHeadTokens);
  for (const int32_t after : taps_) {
    const std::vector<double> rows =
        reference_hidden(*target_.checkpoint, std::span(tokens_).first(kHeadTokens), after);
    const size_t width = rows.size() / kHeadTokens;
    for (size_t token = 0; token < kHeadTokens; ++token) {
      const Vector row = slice(rows, token * width, width);
      taps[token].insert(taps[token].end(), row.begin(), row.end());
    }
  }
  std::vector<ReferenceHead::Output> expected;
  std::vector<size_t> prefix;
  for (int32_t q = 1; q <= kHeadTokens; ++q) {
    const Vector feature = reference.feature_of(taps[static_cast<size_t>(q - 1)]);
    expected.push_back(reference.run(tokens_[static_cast<size_t>(q)], feature, q, prefix));
    prefix.push_back(prefix.size());
  }
  const Vector root = expected.back().feature;
  for (const int32_t token : {kNodeTokens[0], kNodeTokens[1]}) {
    expected.push_back(reference.run(token, root, kHeadTokens + 1, prefix));
  }
  std::vector<size_t> path = prefix;
  path.push_back(kHeadTokens + 1);
  const Vector second = expected.back().feature;
  for (const int32_t token : {kNodeTokens[2], kNodeTokens[3]}) {
    expected.push_back(reference.run(token, second, kHeadTokens + 2, path));
  }

  for (const auto& [threads, rows_per_step] :
       {std::pair<int32_t, int32_t>{1, kHeadTokens}, {3, 1}, {2, 13}}) {
    SCOPED_TRACE(std::to_string(rows_per_step) + " rows");
    load(threads);
    read_text();
    const std::vector<int32_t> table = {0, 1};
    const TapStore& own = dynamic_cast<const CpuDecoder&>(*decoder_).taps();
    size_t checked = 0;
    const auto run = [&](Step step, bool is_tree) {
      step.sequences.assign(1, {table.data()});
      const bool all_want = is_tree || step.rows.back().position % 2 == 0;
      for (size_t row = 0; row + 1 < step.rows.size(); ++row) {
        step.rows[row].wants_logits = all_want;
      }
      const Status ran = decoder_->forward(step);
      ASSERT_TRUE(ran.ok()) << ran.message();
      const std::vector<float> logits = copy_logits(*decoder_);
      const float* next = logits.data();
      for (const StepRow& row : step.rows) {
        const size_t row_idx = checked++;
        if (!row.wants_logits) continue;
        EXPECT_LE(difference(next, expected[row_idx].logits), 1e-5) << "row " << row_idx;
        next += kHeadVocab;
      }
      for (const StepTap& tap : step.taps) {
        const auto* const found = reinterpret_cast<const float*>(own.row(tap.place));
        // The feature in the store is the one before the final norm.
        if (head_->config().eagle3->feeds_back_normalized) continue;
        EXPECT_LE(
            difference(found,
                       expected[checked - step.rows.size() + static_cast<size_t>(tap.row)].feature),
            1e-5);
      }
    };
    run_text_and_tree(tokens_, rows_per_step, run);
    EXPECT_EQ(checked, expected.size());
  }
}

// The head is as similar to the case's as llama.cpp's layout can describe.
TEST_P(Eagle3, AGgufFileGivesTheSameBits) {
  ToySpec spec = cases()[GetParam()].head;
  if (spec.num_layers > 1) GTEST_SKIP() << "a head of several layers, which has no GGUF files";
  spec.eagle3->feeds_back_normalized = false;
  if (spec.eagle3->norm_of_taps == Norm::kEach) spec.eagle3->norm_of_taps = Norm::kTogether;
  ASSERT_TRUE(write_toy_checkpoint(head_dir_.path(), spec).ok());
  const auto open_head = [this](const std::filesystem::path& path) {
    auto head = Checkpoint::open_draft(path);
    ASSERT_TRUE(head.ok()) << head.status().message();
    head_ = std::make_unique<Checkpoint>(std::move(*head));
  };
  ASSERT_NO_FATAL_FAILURE(open_head(head_dir_.path()));
  const auto logits = [this] {
    load(2);
    read_text();
    const std::vector<int32_t> table = {0, 1};
    std::vector<float> all;
    run_text_and_tree(tokens_, 13, [&](Step step, bool) {
      step.sequences.assign(1, {table.data()});
      EXPECT_TRUE(decoder_->forward(step).ok());
      const std::vector<float> found = copy_logits(*decoder_);
      all.insert(all.end(), found.begin(), found.end());
    });
    return all;
  };
  const std::vector<float> expected = logits();
  spec.eagle3->tap_layers = taps_;  // as llama.cpp counts them
  const std::filesystem::path path = head_dir_.path() / "head.gguf";
  toy_gguf(spec).write(path);
  ASSERT_NO_FATAL_FAILURE(open_head(path));
  EXPECT_EQ(logits(), expected);
}

TEST_P(Eagle3, LogitsBeyondTheLiveVocabularyAreImpossible) {
  constexpr int32_t kLive = kHeadVocab / 2 + 7;
  std::vector<std::vector<float>> logits;
  for (const std::optional<int32_t> live : {std::optional<int32_t>(), std::optional(kLive)}) {
    load(2, live);
    ASSERT_NE(decoder_, nullptr);
    read_text();
    const std::vector<int32_t> table = {0, 1};
    Step step;
    step.sequences.push_back({table.data()});
    step.rows.push_back(head_row(tokens_[1], 1));
    step.rows.back().wants_logits = true;
    step.features.push_back({.is_own = false, .place = 3});
    ASSERT_TRUE(decoder_->forward(step).ok());
    logits.push_back(copy_logits(*decoder_));
  }
  for (size_t token = 0; token < static_cast<size_t>(kHeadVocab); ++token) {
    EXPECT_EQ(logits[1][token], token < kLive ? logits[0][token] : -INFINITY) << token;
  }
}

class Eagle3Refusals : public Eagle3 {};

TEST_P(Eagle3Refusals, NameWhatDoesNotFit) {
  load(1);
  ASSERT_NE(decoder_, nullptr);
  read_text();
  const auto has = [](const Status& status, const char* part) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    return status.code() == StatusCode::kInvalidArgument;
  };
  const std::vector<int32_t> table = {0, 1};
  Step step;
  step.sequences.push_back({table.data()});
  step.rows.push_back(head_row(5, 1));
  EXPECT_TRUE(has(decoder_->forward(step), "found features of 0 rows; accepted: of all 1"));
  step.features.push_back({.is_own = true, .place = 9});
  EXPECT_TRUE(has(decoder_->forward(step), "step row 0: place of its feature 9; accepted: 0 to 8"));
  step.features[0] = {.is_own = false, .place = kTargetPlaces};
  EXPECT_TRUE(has(decoder_->forward(step), "place of its feature 73; accepted: 0 to 72"));
  step.features[0].place = 3;
  EXPECT_TRUE(decoder_->forward(step).ok());
  EXPECT_TRUE(has(target_.decoder->forward(step), "found features of 1 rows; accepted: none"));

  CpuDecoderOptions options;
  options.kv_blocks = 2;
  const auto load_status = [&] {
    return CpuDecoder::load(*head_, devices_.get(), options).status();
  };
  EXPECT_TRUE(has(load_status(), "EAGLE-3 head: found no target; accepted: a target with taps"));
  options.target = target_.checkpoint.get();
  const TapStore others({.after_layers = {1, 2, 3}, .places = 4}, 64, DType::kF32);
  options.target_taps = &others;
  EXPECT_TRUE(has(load_status(), "found other taps of the target"));
  options.target_taps = &dynamic_cast<const CpuDecoder&>(*target_.decoder).taps();
  options.taps = {.after_layers = {0}, .places = 4};
  EXPECT_TRUE(
      has(load_status(), "found a tap of its own after 0 layers; accepted: one, after all 1"));
  options.taps = {};
  EXPECT_TRUE(load_status().ok());
}

std::string case_name(const testing::TestParamInfo<size_t>& tested) {
  return cases()[tested.param].name;
}
INSTANTIATE_TEST_SUITE_P(Heads, Eagle3Refusals, testing::Values(size_t{0}), case_name);
INSTANTIATE_TEST_SUITE_P(Heads, Eagle3, testing::Range(size_t{0}, cases().size()), case_name);

}  // namespace
}  // namespace forerun
