// Tests a trained head as the draft of an executor. Its guesses must equal those of the head when
// it runs directly on the tokens, over rounds, pieces of prompts, shared prefixes and missing
// hidden states; on one device, on groups of devices, and behind a target in stages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/head_specs_rig.h"
#include "checkpoint/testing.h"
#include "exec/decoder_step_runner.h"
#include "exec/real_executor.h"
#include "exec/stages/stage_pipeline.h"
#include "exec/stages/stage_threads.h"
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kHeadTokens = 256;
constexpr int32_t kGuesses = 3;
constexpr auto kHeadTimeout = std::chrono::seconds(20);

constexpr int32_t kTargetLayers = 6;

// The devices of a target: the threads of each device in each stage, and the layers of the stages.
struct Cut {
  std::string name;
  std::vector<int32_t> team_sizes = {1};
  std::vector<int32_t> layers = {kTargetLayers};
};

// A toy target with a toy head on the devices of its last stage.
struct HeadAndTarget {
  explicit HeadAndTarget(const Cut& cut, int64_t places, int64_t own_places = 64) {
    ToySpec target_spec;
    target_spec.num_layers = kTargetLayers;
    EXPECT_TRUE(write_toy_checkpoint(target_dir.path(), target_spec).ok());
    EXPECT_TRUE(write_toy_checkpoint(head_dir.path(), head_of(target_spec)).ok());
    auto opened = Checkpoint::open_draft(head_dir.path());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    checkpoint = std::make_unique<Checkpoint>(std::move(*opened));
    const auto target_config = Checkpoint::open(target_dir.path());
    const TapOptions taps = {
        .after_layers = fit_eagle3(checkpoint->config(), target_config->config()).value(),
        .places = places};
    CpuDecoderOptions options;
    options.activation = Activation::kF32;
    options.kv_blocks = 40;
    const auto ranges = cut_layers(cut.layers, target_config->config());
    for (const LayerRange& layers : *ranges) {
      options.layers = layers;
      options.taps = taps_of_stage(taps, layers);
      auto loaded = LoadedDecoder::open(target_dir.path(), cut.team_sizes, options);
      EXPECT_TRUE(loaded.ok()) << loaded.status().message();
      stages.push_back(std::move(*loaded));
    }
    options.layers.reset();
    options.target = stages.back().checkpoint.get();
    options.target_taps = &dynamic_cast<const CpuDecoder&>(*stages.back().decoder).taps();
    options.taps = {.after_layers = {1}, .places = own_places};
    head_device = stages.back().devices->as_one_device();
    auto decoder = CpuDecoder::load(*checkpoint, head_device.get(), options);
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    head = std::move(*decoder);
  }

  std::unique_ptr<StepRunner> target_runner() {
    if (stages.size() == 1) {
      return std::make_unique<DecoderStepRunner>(stages.front().decoder.get(),
                                                 stages.front().devices.get(), kHeadTokens);
    }
    std::vector<PipelineStage> parts;
    for (const LoadedDecoder& stage : stages) {
      parts.push_back({stage.decoder.get(), stage.devices.get()});
    }
    return std::make_unique<StagePipeline>(std::make_unique<StageThreads>(parts, kHeadTokens));
  }

  const TempDir target_dir, head_dir;
  std::unique_ptr<Checkpoint> checkpoint;
  std::vector<LoadedDecoder> stages;  // stages of the target
  std::unique_ptr<CpuDeviceGroup> head_device;
  std::unique_ptr<Decoder> head;
};

// The most likely tokens behind a prefix by the head, and those behind each of them.
struct Guesses {
  std::vector<TokenId> root;
  std::vector<std::vector<TokenId>> below;

  bool operator==(const Guesses&) const = default;
};

std::vector<TokenId> best_tokens(const float* logits) {
  std::vector<TokenId> tokens(kHeadTokens);
  for (int32_t token = 0; token < kHeadTokens; ++token) tokens[static_cast<size_t>(token)] = token;
  std::partial_sort(tokens.begin(), tokens.begin() + kGuesses, tokens.end(),
                    [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  tokens.resize(kGuesses);
  return tokens;
}

// Runs the head directly on the tokens, behind an uncut target on devices with this many threads.
// Its context begins at position `first`.
Guesses expected_guesses(const std::vector<int32_t>& team_sizes, const std::vector<TokenId>& text,
                         int32_t first = 1) {
  const auto length = static_cast<int32_t>(text.size());
  HeadAndTarget models({.name = "whole", .team_sizes = team_sizes}, length, kGuesses + 1);
  Decoder& target = *models.stages.front().decoder;
  const std::vector<int32_t> table = SequenceDriver::blocks_for(length + kGuesses);
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, text, 0, false);
  for (int32_t row = 0; row < length; ++row) step.taps.push_back({row, row});
  EXPECT_TRUE(target.forward(step).ok());
  step.clear();
  step.sequences.push_back({table.data()});
  for (int32_t position = first; position < length; ++position) {
    StepRow row{.token = text[static_cast<size_t>(position)], .position = position};
    row.slot = position - first;
    row.visible = row.boundary = row.slot + 1;
    row.wants_logits = position + 1 == length;
    step.rows.push_back(row);
    step.features.push_back({.is_own = false, .place = position - 1});
  }
  step.taps.push_back({length - 1 - first, 0});
  EXPECT_TRUE(models.head->forward(step).ok());
  Guesses guesses;
  guesses.root = best_tokens(copy_logits(*models.head).data());
  step.clear();
  step.sequences.push_back({table.data()});
  const int32_t end = length - first;  // slots of the prefix
  for (int32_t guess = 0; guess < kGuesses; ++guess) {
    StepRow row{.token = guesses.root[static_cast<size_t>(guess)], .position = length};
    row.slot = end + guess;
    row.visible = end + 1;
    row.boundary = end;
    row.ancestor_begin = guess;
    row.wants_logits = true;
    step.ancestors.push_back(row.slot);
    step.rows.push_back(row);
    step.features.push_back({.is_own = true, .place = 0});
  }
  EXPECT_TRUE(models.head->forward(step).ok());
  const std::vector<float> logits = copy_logits(*models.head);
  for (int32_t guess = 0; guess < kGuesses; ++guess) {
    guesses.below.push_back(best_tokens(logits.data() + ptrdiff_t{guess} * kHeadTokens));
  }
  return guesses;
}

// A fixture that runs one sequence with a head in the way of serial_tree.
class HeadDraft : public testing::TestWithParam<Cut> {
 protected:
  void start(int64_t places, int32_t row_budget = 512) {
    executor_.reset();
    models_ = std::make_unique<HeadAndTarget>(GetParam(), places);
    RealExecutorOptions setup;
    setup.runners[static_cast<size_t>(Role::kTarget)] = models_->target_runner();
    setup.runners[static_cast<size_t>(Role::kDraft)] = std::make_unique<DecoderStepRunner>(
        models_->head.get(), models_->head_device.get(), kHeadTokens);
    setup.budget.rows = row_budget;
    executor_ = std::make_unique<RealExecutor>(std::move(setup));
  }

  void open(SequenceId id, std::vector<TokenId> text, bool share_prefix = false) {
    SequenceSpec spec;
    spec.sampling.temperature = 0.0f;
    spec.max_tokens = 600;
    spec.prompt_tokens = static_cast<int32_t>(text.size());
    spec.share_prefix = share_prefix;
    ASSERT_TRUE(executor_->open(id, spec).ok());
    text_ = std::move(text);
    id_ = id;
    drafted_ = 0;
    root_ = 0;
    next_node_ = 1;
    target_edits_.clear();
    draft_edits_.clear();
  }

  WorkResult run(WorkItem item) {
    item.sequence = id_;
    executor_->submit(std::move(item));
    auto result = executor_->next(kHeadTimeout);
    EXPECT_TRUE(result && result->status.ok()) << (result ? result->status.message() : "none");
    return result.value_or(WorkResult());
  }

  // Reads all tokens but the last, which is the root.
  WorkResult read_prompt() {
    WorkItem item;
    item.role = Role::kTarget;
    for (int32_t position = 0; position + 1 < length(); ++position) {
      item.rows.push_back({.token = text_[static_cast<size_t>(position)], .position = position});
    }
    item.rows.back().want = Want::kSample;
    return run(std::move(item));
  }

  // Runs draft items for the root and its guesses. Nodes have the ids that follow `root_`.
  Guesses draft() {
    WorkItem item;
    item.role = Role::kDraft;
    item.needs_features = true;
    item.edits = std::exchange(draft_edits_, {});
    for (; drafted_ + 1 < length(); ++drafted_) {
      item.rows.push_back({.token = text_[static_cast<size_t>(drafted_)], .position = drafted_});
    }
    root_ = next_node_;
    item.rows.push_back({.token = text_.back(),
                         .position = length() - 1,
                         .node = root_,
                         .want = Want::kTopK,
                         .count = kGuesses});
    const WorkResult first = run(std::move(item));
    Guesses guesses;
    left_out_ = first.left_out;
    reused_ = first.reused_rows;
    if (first.rows.empty()) return guesses;
    WorkItem second;
    second.role = Role::kDraft;
    second.needs_features = true;
    for (const Candidate& guess : first.rows[0].top) {
      guesses.root.push_back(guess.token);
      second.rows.push_back({.token = guess.token,
                             .position = length(),
                             .node = ++next_node_,
                             .parent = root_,
                             .want = Want::kTopK,
                             .count = kGuesses});
    }
    for (const RowResult& row : run(std::move(second)).rows) {
      auto& tokens = guesses.below.emplace_back();
      for (const Candidate& guess : row.top) tokens.push_back(guess.token);
    }
    ++next_node_;
    return guesses;
  }

  // Lets the target run the root and a path of two guesses; accepts `accepted` of them and
  // continues with `next`.
  void verify(const Guesses& guesses, int32_t accepted, TokenId next) {
    WorkItem item;
    item.role = Role::kTarget;
    item.edits = std::exchange(target_edits_, {});
    const std::vector<TokenId> tokens = {text_.back(), guesses.root[1], guesses.below[1][2]};
    const std::vector<NodeId> nodes = {root_, root_ + 2, next_node_};
    // This sibling of the guess will be dropped.
    item.rows.push_back({.token = tokens[0], .position = length() - 1, .node = root_});
    item.rows.push_back(
        {.token = guesses.root[0], .position = length(), .node = root_ + 1, .parent = root_});
    item.rows.push_back(
        {.token = tokens[1], .position = length(), .node = root_ + 2, .parent = root_});
    item.rows.push_back(
        {.token = tokens[2], .position = length() + 1, .node = next_node_, .parent = root_ + 2});
    for (WorkRow& row : item.rows) row.want = Want::kSample;
    EXPECT_EQ(run(std::move(item)).rows.size(), 4u);
    const auto path = nodes.begin() + 1 + accepted;
    target_edits_ = {{Edit::Kind::kCommit, {nodes.begin(), path}}, {Edit::Kind::kKeep, {}}};
    draft_edits_ = {{Edit::Kind::kCommit, {root_}}, {Edit::Kind::kKeep, {}}};
    text_.insert(text_.end(), tokens.begin() + 1, tokens.begin() + 1 + accepted);
    text_.push_back(next);
    ++drafted_;  // for the root
    next_node_ += 10;
  }

  // Returns the head's guesses behind the present tokens, or behind others.
  Guesses expected(int32_t first = 1) const { return expected(text_, first); }
  static Guesses expected(const std::vector<TokenId>& text, int32_t first = 1) {
    return expected_guesses(GetParam().team_sizes, text, first);
  }

  int32_t length() const { return static_cast<int32_t>(text_.size()); }

  std::unique_ptr<HeadAndTarget> models_;
  std::unique_ptr<RealExecutor> executor_;
  SequenceId id_ = 0;
  std::vector<TokenId> text_;
  int32_t drafted_ = 0;
  bool left_out_ = false;
  int32_t reused_ = 0;
  NodeId root_ = 0, next_node_ = 1;
  std::vector<Edit> target_edits_, draft_edits_;
};

TEST_P(HeadDraft, GuessesAreTheHeadsOwnRoundAfterRound) {
  for (const int32_t row_budget : {512, 37}) {
    SCOPED_TRACE(row_budget);
    start(400, row_budget);
    open(1, toy_tokens(150, kHeadTokens));
    read_prompt();
    for (const int32_t accepted : {2, 0, 1, 2, 2}) {
      const Guesses guesses = draft();
      ASSERT_EQ(guesses, expected()) << "after " << length() << " tokens";
      verify(guesses, accepted, (length() * 7) % kHeadTokens);
    }
    executor_->close(1);
    EXPECT_EQ(executor_->kv_usage(Role::kDraft).used_blocks, 0);
  }
}

TEST_P(HeadDraft, AcceptedTokensOfRoundsWithoutDraftAreRead) {
  start(400);
  open(1, toy_tokens(40, kHeadTokens));
  read_prompt();
  // In plain decoding the draft runs nothing.
  for (int32_t round = 0; round < 90; ++round) {
    WorkItem item;
    item.role = Role::kTarget;
    item.rows.push_back({.token = text_.back(), .position = length() - 1, .want = Want::kSample});
    run(std::move(item));
    text_.push_back((round * 11 + 3) % kHeadTokens);
  }
  EXPECT_EQ(draft(), expected());
}

TEST_P(HeadDraft, SharedPrefixesAreNotRunAgain) {
  start(400);
  const std::vector<TokenId> text = toy_tokens(200, kHeadTokens);
  open(1, text, /*share_prefix=*/true);
  read_prompt();
  const Guesses first = draft();
  EXPECT_EQ(first, expected(text));
  EXPECT_EQ(reused_, 0);
  // Another sequence has the same beginning and another end.
  std::vector<TokenId> other = text;
  for (size_t idx = 170; idx < other.size(); ++idx) other[idx] = (other[idx] + 1) % kHeadTokens;
  open(2, other, /*share_prefix=*/true);
  EXPECT_EQ(read_prompt().reused_rows, 128);
  EXPECT_EQ(draft(), expected(other));
  EXPECT_EQ(reused_, 128);
  // A third sequence has another first token: it shares nothing, though all of the head's rows have
  // the same tokens.
  std::vector<TokenId> third = text;
  third[0] = (third[0] + 1) % kHeadTokens;
  open(3, third, /*share_prefix=*/true);
  EXPECT_EQ(read_prompt().reused_rows, 0);
  EXPECT_EQ(draft(), expected(third));
  EXPECT_EQ(reused_, 0);
}

TEST_P(HeadDraft, TheContextBeginsAnewWhereHiddenStatesAreGone) {
  start(100);
  open(1, toy_tokens(150, kHeadTokens));
  read_prompt();
  // 149 rows ran with 100 places. Rows 100 and 136 found none left, and all but the 64 places
  // before them were freed: token 72 is the first with a hidden state.
  constexpr int32_t kFirst = 136 - TapPlaces::kMinKept + 1;
  const Guesses guesses = draft();
  EXPECT_EQ(guesses, expected(kFirst));
  verify(guesses, 1, 9);
  EXPECT_EQ(draft(), expected(kFirst));
}

TEST_P(HeadDraft, AGuessWithoutAHiddenStateBeforeItIsLeftOut) {
  start(400);
  open(1, {5});
  EXPECT_EQ(draft().root.size(), 0u);
  EXPECT_TRUE(left_out_);
  // The target then runs the token, and the head can guess behind the next one.
  WorkItem item;
  item.role = Role::kTarget;
  item.rows.push_back({.token = 5, .position = 0, .want = Want::kSample});
  run(std::move(item));
  text_.push_back(17);
  drafted_ = 0;
  EXPECT_EQ(draft(), expected());
}

INSTANTIATE_TEST_SUITE_P(Cuts, HeadDraft,
                         testing::Values(Cut{"whole"}, Cut{"on_a_group", {1, 2}},
                                         Cut{"two_stages", {1}, {3, 3}},
                                         Cut{"stages_of_groups", {1, 1}, {1, 4, 1}}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace forerun
