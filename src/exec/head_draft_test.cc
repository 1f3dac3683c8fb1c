// A trained head as the draft of an executor: its guesses must be those that the head makes when it
// is run directly on the text, over rounds, pieces of prompts, shared prefixes and hidden states
// that were not kept.
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
#include "model/testing.h"

namespace forerun {
namespace {

constexpr int32_t kHeadTokens = 256;
constexpr int32_t kGuesses = 3;
constexpr auto kHeadTimeout = std::chrono::seconds(20);

// A toy target with a toy head on the same device.
struct HeadAndTarget {
  explicit HeadAndTarget(int64_t places, int64_t own_places = 64) {
    ToySpec target_spec;
    target_spec.num_layers = 6;
    EXPECT_TRUE(write_toy_checkpoint(target_dir.path(), target_spec).ok());
    EXPECT_TRUE(write_toy_checkpoint(head_dir.path(), head_of(target_spec)).ok());
    auto opened = Checkpoint::open_draft(head_dir.path());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    checkpoint = std::make_unique<Checkpoint>(std::move(*opened));
    const auto target_config = Checkpoint::open(target_dir.path());
    CpuDecoderOptions options;
    options.activation = Activation::kF32;
    options.kv_blocks = 40;
    options.taps = {
        .after_layers = fit_eagle3(checkpoint->config(), target_config->config()).value(),
        .places = places};
    auto loaded = LoadedDecoder::open(target_dir.path(), 1, options);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    target = std::move(*loaded);
    options.target = target.checkpoint.get();
    options.target_taps = &dynamic_cast<const CpuDecoder&>(*target.decoder).taps();
    options.taps = {.after_layers = {1}, .places = own_places};
    auto decoder = CpuDecoder::load(*checkpoint, target.devices.get(), options);
    EXPECT_TRUE(decoder.ok()) << decoder.status().message();
    head = std::move(*decoder);
  }

  const TempDir target_dir, head_dir;
  std::unique_ptr<Checkpoint> checkpoint;
  LoadedDecoder target;
  std::unique_ptr<Decoder> head;
};

// The tokens behind a text that a head finds likeliest, and those behind each of these.
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

// Runs the head on the text directly. Its context begins at position `first`.
Guesses expected_guesses(const std::vector<TokenId>& text, int32_t first = 1) {
  const auto length = static_cast<int32_t>(text.size());
  HeadAndTarget models(length, kGuesses + 1);
  const std::vector<int32_t> table = SequenceDriver::blocks_for(length + kGuesses);
  Step step;
  step.sequences.push_back({table.data()});
  SequenceDriver::add_prefix_rows(step, 0, text, 0, false);
  for (int32_t row = 0; row < length; ++row) step.taps.push_back({row, row});
  EXPECT_TRUE(models.target.decoder->forward(step).ok());
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
  const int32_t end = length - first;  // slots of the text
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

// A sequence of an executor, driven as serial_tree would.
class HeadDraft : public testing::Test {
 protected:
  void start(int64_t places, int32_t row_budget = 512) {
    models_ = std::make_unique<HeadAndTarget>(places);
    RealExecutorOptions setup;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      Decoder* const decoder =
          role == Role::kTarget ? models_->target.decoder.get() : models_->head.get();
      setup.runners[static_cast<size_t>(role)] =
          std::make_unique<DecoderStepRunner>(decoder, models_->target.devices.get(), kHeadTokens);
    }
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

  // All but the last token, which is the root.
  WorkResult read_prompt() {
    WorkItem item;
    item.role = Role::kTarget;
    for (int32_t position = 0; position + 1 < length(); ++position) {
      item.rows.push_back({.token = text_[static_cast<size_t>(position)], .position = position});
    }
    item.rows.back().want = Want::kSample;
    return run(std::move(item));
  }

  // Draft items for the root and its guesses. Nodes have the ids that follow `root_`.
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

  // The target runs the root and two guesses of a row, of which `accepted` are taken, and the text
  // goes on with `next`.
  void verify(const Guesses& guesses, int32_t accepted, TokenId next) {
    WorkItem item;
    item.role = Role::kTarget;
    item.edits = std::exchange(target_edits_, {});
    const std::vector<TokenId> tokens = {text_.back(), guesses.root[1], guesses.below[1][2]};
    const std::vector<NodeId> nodes = {root_, root_ + 2, next_node_};
    // A sibling of the guess, to be dropped.
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
    ++drafted_;  // the root
    next_node_ += 10;
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

TEST_F(HeadDraft, GuessesAreTheHeadsOwnRoundAfterRound) {
  for (const int32_t row_budget : {512, 37}) {
    SCOPED_TRACE(row_budget);
    start(400, row_budget);
    open(1, toy_tokens(150, kHeadTokens));
    read_prompt();
    for (const int32_t accepted : {2, 0, 1, 2, 2}) {
      const Guesses guesses = draft();
      ASSERT_EQ(guesses, expected_guesses(text_)) << "after " << length() << " tokens";
      verify(guesses, accepted, (length() * 7) % kHeadTokens);
    }
    executor_->close(1);
    EXPECT_EQ(executor_->kv_usage(Role::kDraft).used_blocks, 0);
  }
}

TEST_F(HeadDraft, AcceptedTokensOfRoundsWithoutDraftAreRead) {
  start(400);
  open(1, toy_tokens(40, kHeadTokens));
  read_prompt();
  // Plain decoding: the draft runs nothing.
  for (int32_t round = 0; round < 90; ++round) {
    WorkItem item;
    item.role = Role::kTarget;
    item.rows.push_back({.token = text_.back(), .position = length() - 1, .want = Want::kSample});
    run(std::move(item));
    text_.push_back((round * 11 + 3) % kHeadTokens);
  }
  EXPECT_EQ(draft(), expected_guesses(text_));
}

TEST_F(HeadDraft, SharedPrefixesAreNotRunAgain) {
  start(400);
  const std::vector<TokenId> text = toy_tokens(200, kHeadTokens);
  open(1, text, /*share_prefix=*/true);
  read_prompt();
  const Guesses first = draft();
  EXPECT_EQ(first, expected_guesses(text));
  EXPECT_EQ(reused_, 0);
  // The same beginning, and another end.
  std::vector<TokenId> other = text;
  for (size_t idx = 170; idx < other.size(); ++idx) other[idx] = (other[idx] + 1) % kHeadTokens;
  open(2, other, /*share_prefix=*/true);
  EXPECT_EQ(read_prompt().reused_rows, 128);
  EXPECT_EQ(draft(), expected_guesses(other));
  EXPECT_EQ(reused_, 128);
  // Another first token: nothing is shared, though all of the head's rows have the same tokens.
  std::vector<TokenId> third = text;
  third[0] = (third[0] + 1) % kHeadTokens;
  open(3, third, /*share_prefix=*/true);
  EXPECT_EQ(read_prompt().reused_rows, 0);
  EXPECT_EQ(draft(), expected_guesses(third));
  EXPECT_EQ(reused_, 0);
}

TEST_F(HeadDraft, TheContextBeginsAnewWhereHiddenStatesAreGone) {
  start(100);
  open(1, toy_tokens(150, kHeadTokens));
  read_prompt();
  // 149 rows ran with 100 places. Rows 100 and 136 found none left, and all but 64 in front of them
  // were forgotten: the hidden state of token 72 is the first that is there.
  constexpr int32_t kFirst = 136 - TapPlaces::kMinKept + 1;
  const Guesses guesses = draft();
  EXPECT_EQ(guesses, expected_guesses(text_, kFirst));
  verify(guesses, 1, 9);
  EXPECT_EQ(draft(), expected_guesses(text_, kFirst));
}

TEST_F(HeadDraft, AGuessWithoutAHiddenStateBeforeItIsLeftOut) {
  start(400);
  open(1, {5});
  EXPECT_EQ(draft().root.size(), 0u);
  EXPECT_TRUE(left_out_);
  // The target then runs the token, and the head can guess behind the next.
  WorkItem item;
  item.role = Role::kTarget;
  item.rows.push_back({.token = 5, .position = 0, .want = Want::kSample});
  run(std::move(item));
  text_.push_back(17);
  drafted_ = 0;
  EXPECT_EQ(draft(), expected_guesses(text_));
}

}  // namespace
}  // namespace forerun
