// Tests prompts in Steps of the real executor: how many of their rows a Step takes, in which order,
// and which blocks are shared.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "exec/exec_rig.h"
#include "exec/role/step_composer.h"

namespace forerun {
namespace {

TEST(RealExecutor, APromptFillsWhatDecodingLeavesOfAStep) {
  std::vector<StepRecord> records;
  Rig rig(
      {.row_budget = 16, .on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  ASSERT_TRUE(rig.executor->open(2, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, std::vector<TokenId>(100, 5)));
  rig.executor->submit(prefix_item(2, Role::kTarget, {1, 2, 3}));
  const auto first = rig.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->sequence, 2u) << "the prompt came first, but decoding goes before";
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].rows, 16) << "the rest of the Step reads the prompt";
  EXPECT_EQ(records[0].kv_tokens, 3 + 13);
  EXPECT_EQ(records[0].attended_tokens, 1 + 2 + 3 + 13 * 14 / 2);
  rig.executor->submit(prefix_item(2, Role::kTarget, {4}, 3));
  EXPECT_EQ(rig.next()->sequence, 2u);
  const auto last = rig.next();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->sequence, 1u);
  EXPECT_EQ(rig.target.largest_step, 16);
}

// Prompts are read one after the other, those of higher priority first.
TEST(RealExecutor, PromptsAreReadByPriorityThenAsTheyCame) {
  Rig rig({.row_budget = 40, .on_step = {}});
  SequenceSpec urgent = plain_spec();
  urgent.priority = 1;
  for (SequenceId id = 1; id <= 4; ++id) {
    ASSERT_TRUE(rig.executor->open(id, id == 3 ? urgent : plain_spec()).ok());
  }
  for (const SequenceId id : {4, 2, 1, 3}) {
    rig.executor->submit(
        prefix_item(id, Role::kTarget, std::vector<TokenId>(100, static_cast<TokenId>(id))));
  }
  std::vector<SequenceId> order;
  while (order.size() < 4) order.push_back(rig.next()->sequence);
  EXPECT_EQ(order, (std::vector<SequenceId>{3, 1, 2, 4}));
}

// However many prompts of higher priority come, one Step in sixteen serves a prompt that they have
// passed over.
TEST(RealExecutor, APromptOfALowPriorityMoves) {
  constexpr int32_t kRows = 40;
  Rig rig({.row_budget = kRows, .on_step = {}});
  SequenceSpec urgent = plain_spec();
  urgent.priority = 1;
  constexpr SequenceId kLow = 1;
  ASSERT_TRUE(rig.executor->open(kLow, plain_spec()).ok());
  rig.executor->submit(prefix_item(kLow, Role::kTarget, std::vector<TokenId>(2 * kRows, 1)));
  const auto submit_urgent = [&](SequenceId id) {
    ASSERT_TRUE(rig.executor->open(id, urgent).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, std::vector<TokenId>(kRows, 2)));
  };
  SequenceId next = kLow + 1;
  for (; next < kLow + 4; ++next) submit_urgent(next);
  int results = 0;  // one per Step
  for (; results < 100; ++results) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    if (result->sequence == kLow) break;
    rig.executor->close(result->sequence);
    submit_urgent(next++);
  }
  EXPECT_GE(results, 2 * 15);
  EXPECT_LE(results, 2 * 16);
}

// The logits of a scored prompt are whole rows, so only a few of them, over all prompts, may be
// held at a time.
TEST(RealExecutor, AScoredPromptIsReadInPiecesOfFewRows) {
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  SequenceSpec scored = plain_spec();
  scored.prompt_tokens = 300;
  scored.sampling.prompt_logprobs = 2;
  std::vector<TokenId> prompt(300);
  for (size_t place = 0; place < prompt.size(); ++place) {
    prompt[place] = static_cast<TokenId>(place % kVocab);
  }
  for (const SequenceId id : {1, 2}) {
    ASSERT_TRUE(rig.executor->open(id, scored).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, prompt));
  }
  for (int32_t results = 0; results < 2; ++results) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    ASSERT_TRUE(result->status.ok()) << result->status.message();
    EXPECT_EQ(result->rows.size(), 1u);
    ASSERT_EQ(result->scores.size(), prompt.size() - 1);
    for (size_t place = 0; place + 1 < prompt.size(); ++place) {
      const RowResult& score = result->scores[place];
      ASSERT_EQ(score.position, static_cast<int32_t>(place));
      ASSERT_EQ(score.token, prompt[place + 1]);
      ASSERT_LT(score.logprob, 0.0f);
      ASSERT_EQ(score.top.size(), 2u);
      ASSERT_GE(score.top[0].logprob, score.top[1].logprob);
      ASSERT_GE(score.top[0].logprob, score.logprob);
    }
  }
  for (const StepRecord& record : records) EXPECT_LE(record.rows, StepComposer::kMaxScoredRows + 1);
}

// Wherever Steps cut a prompt, only one of the requests that share a block of it computes the
// block.
TEST(RealExecutor, ASharedPromptIsComputedOnceHoweverItIsCut) {
  for (const int32_t row_budget : {7, 40, 64, 70, 100, 150, 512}) {
    Rig rig({.row_budget = row_budget, .on_step = {}});
    SequenceSpec sharing = plain_spec();
    sharing.share_prefix = true;
    for (SequenceId id = 1; id <= 4; ++id) {
      ASSERT_TRUE(rig.executor->open(id, sharing).ok());
      rig.executor->submit(prefix_item(id, Role::kTarget, std::vector<TokenId>(200, 5)));
    }
    int32_t reused = 0;
    for (int32_t results = 0; results < 4; ++results) {
      const auto result = rig.next();
      ASSERT_TRUE(result.has_value());
      ASSERT_EQ(result->rows.size(), 1u);
      reused += result->reused_rows;
    }
    EXPECT_EQ(reused, 3 * 3 * kKvBlockTokens) << row_budget;
  }
}

// An inline draft that reads a prompt takes turns with the target.
TEST(RealExecutor, ADraftsPromptDoesNotHoldUpTheTarget) {
  std::vector<Role> steps;
  Rig rig({.row_budget = 32,
           .on_step = [&](const StepRecord& record) { steps.push_back(record.role); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(4000)).ok());
  ASSERT_TRUE(rig.executor->open(2, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kDraft, std::vector<TokenId>(1000, 5)));
  rig.executor->submit(prefix_item(2, Role::kTarget, {1, 2, 3}));
  EXPECT_EQ(rig.next()->sequence, 2u);
  EXPECT_LE(steps.size(), 2u);
  rig.executor->submit(prefix_item(2, Role::kTarget, {4}, 3));
  EXPECT_EQ(rig.next()->sequence, 2u);
  EXPECT_LE(steps.size(), 4u);
  EXPECT_EQ(rig.next()->sequence, 1u);
}

// A decoding request may have nothing ready at the moment: a role with its own thread sees a prompt
// before the engine has answered the last result.
TEST(RealExecutor, APromptIsReadInSmallPiecesWhileSomebodyDecodesElsewhere) {
  StepCosts known;
  known.add(Role::kTarget, {.rows = 1}, 11e-3);
  known.add(Role::kTarget, {.rows = 101}, 111e-3);
  LiveCosts costs;
  costs.set(std::move(known));
  std::vector<StepRecord> records;
  Rig rig(
      {.costs = &costs, .on_step = [&](const StepRecord& record) { records.push_back(record); }});
  constexpr SequenceId kDecoding = StepScheduler::kDecodingAPrompt;
  for (SequenceId id = 1; id <= kDecoding + 1; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
  }
  for (SequenceId id = 1; id <= kDecoding; ++id) {
    rig.executor->submit(prefix_item(id, Role::kTarget, {1, 2, 3}));
    ASSERT_TRUE(rig.next().has_value());
  }
  rig.executor->submit(prefix_item(kDecoding + 1, Role::kTarget, std::vector<TokenId>(400, 5)));
  const std::chrono::microseconds one_step(0);
  EXPECT_FALSE(rig.executor->next(one_step).has_value());
  EXPECT_EQ(records.back().rows, StepScheduler::kMinPromptRows) << "four fifths of 11 ms hold none";
  rig.executor->close(1);
  ASSERT_TRUE(rig.executor->next(one_step).has_value());
  EXPECT_EQ(records.back().rows, 400 - StepScheduler::kMinPromptRows) << "a crowd goes first";
}

// However many rows decode, a prompt must progress.
TEST(RealExecutor, DecodingLeavesRowsToPrompts) {
  std::vector<StepRecord> records;
  Rig rig(
      {.row_budget = 40, .on_step = [&](const StepRecord& record) { records.push_back(record); }});
  for (SequenceId id = 1; id <= 4; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    WorkItem item = prefix_item(id, Role::kTarget, std::vector<TokenId>(10, 1));
    for (WorkRow& row : item.rows) row.want = Want::kSample;
    if (id == 4) item = prefix_item(id, Role::kTarget, std::vector<TokenId>(100, 1));
    rig.executor->submit(std::move(item));
  }
  ASSERT_TRUE(rig.next().has_value());
  EXPECT_EQ(records.front().rows, 40);
  EXPECT_EQ(records.front().sequences, 3) << "two of ten rows, and twenty of the prompt";
}

}  // namespace
}  // namespace forerun
