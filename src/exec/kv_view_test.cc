// Tests items with views on the fake model. Its logits are a function of exactly the tokens that a
// row attends to, so a plain loop gives the expected ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exec/kv_view_rig.h"

namespace forerun {
namespace {

// Returns StreamingLLM's part of `text`, in which the first `prefix` tokens are the prefix.
std::vector<TokenId> sink_and_window(const std::vector<TokenId>& text, int32_t prefix) {
  const int32_t window = std::max(1, prefix / 64 + 1 - (kBudget / 64 - 1)) * 64;
  std::vector<TokenId> seen(text.begin(), text.begin() + 64);
  seen.insert(seen.end(), text.begin() + window, text.end());
  return seen;
}

// Drafts a chain through the view, across the end of a block, then verifies it in the slots that
// the drafts wrote; plain rows continue from it.
TEST(KvView, DraftRowsSeeTheViewAndTheirVerificationSeesEverything) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  for (const int32_t prefix : {64, 190, 192, 254, 255, 256, 300, 383}) {
    SCOPED_TRACE(prefix);
    Rig rig({});
    // Another sequence has rows in the same Steps.
    std::vector<TokenId> other = text_of(70, 5);
    std::vector<TokenId> text = text_of(prefix, 11);
    for (SequenceId id = 1; id <= 2; ++id) ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(1, Role::kTarget, text));
    rig.executor->submit(prefix_item(2, Role::kTarget, other));
    TokenId root = 0;
    for (int i = 0; i < 2; ++i) {
      const auto result = rig.next();
      ASSERT_TRUE(result && result->status.ok());
      if (result->sequence == 1) root = result->rows[0].token;
    }
    ASSERT_EQ(root, best_after(text));
    // The target will refuse some of the four drafts.
    std::vector<TokenId> chain = {root};
    for (NodeId node = 0; node < 4; ++node) {
      WorkItem item = target_item(1, view);
      item.rows.push_back(tree_row(chain.back(), prefix + static_cast<int32_t>(node), node,
                                   node == 0 ? kNoNode : node - 1, Want::kTopK));
      rig.executor->submit(std::move(item));
      other.push_back(static_cast<TokenId>(node));
      rig.executor->submit(
          prefix_item(2, Role::kTarget, {other.back()}, static_cast<int32_t>(other.size()) - 1));
      std::vector<TokenId> seen = text;
      seen.insert(seen.end(), chain.begin(), chain.end());
      for (int i = 0; i < 2; ++i) {
        const auto result = rig.next();
        ASSERT_TRUE(result && result->status.ok()) << result->status.message();
        if (result->sequence == 2) {
          EXPECT_EQ(result->rows[0].token, best_after(other));
          continue;
        }
        ASSERT_EQ(result->rows[0].top.size(), 1u);
        EXPECT_EQ(result->rows[0].top[0].token, best_after(sink_and_window(seen, prefix)));
        chain.push_back(result->rows[0].top[0].token);
      }
    }
    WorkItem verify = target_item(1, {});
    verify.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    for (NodeId node = 0; node < 5; ++node) {
      verify.rows.push_back(tree_row(chain[node], prefix + static_cast<int32_t>(node), node,
                                     node == 0 ? kNoNode : node - 1, Want::kSample));
    }
    rig.executor->submit(std::move(verify));
    const auto verified = rig.next();
    ASSERT_TRUE(verified && verified->status.ok());
    ASSERT_EQ(verified->rows.size(), 5u);
    for (size_t i = 0; i < 5; ++i) {
      text.push_back(chain[i]);
      EXPECT_EQ(verified->rows[i].token, best_after(text)) << i;
    }
    // The whole chain becomes prefix, and plain decoding continues.
    WorkItem next = prefix_item(1, Role::kTarget, {7}, prefix + 5);
    next.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = {0, 1, 2, 3, 4}});
    rig.executor->submit(std::move(next));
    text.push_back(7);
    EXPECT_EQ(rig.next()->rows[0].token, best_after(text));
    EXPECT_EQ(rig.target.violations, 0);
    rig.executor->close(1);
    rig.executor->close(2);
    EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
  }
}

// The cost of a guess's row depends on the tokens that it attends to. If a Step takes 10 ms and 12
// us per visible token, a guess that is right half of the time is worth a row through the view, but
// not beside rows that attend to all 480 tokens.
TEST(KvView, GuessesAreLeftOutByWhatTheirRowsSee) {
  LiveCosts costs;
  StepCosts known;
  for (const int32_t rows : {1, 1024}) known.add(Role::kTarget, {rows}, 10e-3);
  known.set_slopes(Role::kTarget, {.per_attended_token = 1.2e-5});
  costs.set(known);
  for (const KvViewSpec& view : {KvViewSpec{find_view("streaming_llm"), kBudget}, KvViewSpec{}}) {
    Rig rig({.costs = &costs});
    for (SequenceId id = 1; id <= 2; ++id) {
      ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
      rig.executor->submit(prefix_item(id, Role::kTarget, text_of(480, static_cast<int32_t>(id))));
    }
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.next().has_value());
    for (SequenceId id = 1; id <= 2; ++id) {
      WorkItem item = target_item(id, view);
      item.rows.push_back(tree_row(9, 480, 0, kNoNode, Want::kTopK));
      item.rows.push_back(tree_row(7, 481, 1, 0, Want::kTopK));
      item.rows.back().chance = 0.5f;
      rig.executor->submit(std::move(item));
    }
    for (int i = 0; i < 2; ++i) {
      const auto result = rig.next();
      ASSERT_TRUE(result && result->status.ok());
      EXPECT_EQ(result->rows.size(), view.kind != nullptr ? 2u : 1u);
    }
  }
}

// Two requests with views and one without share a Step: its load must count the visible tokens.
TEST(KvView, DraftAndVerificationRowsShareAStep) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  for (SequenceId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, text_of(300, static_cast<int32_t>(id))));
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.next().has_value());
  records.clear();
  for (SequenceId id = 1; id <= 3; ++id) {
    WorkItem item = target_item(id, id < 3 ? view : KvViewSpec{});
    item.rows.push_back(tree_row(9, 300, 0, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(item));
  }
  for (int i = 0; i < 3; ++i) {
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok());
    std::vector<TokenId> seen = text_of(300, static_cast<int32_t>(result->sequence));
    seen.push_back(9);
    if (result->sequence < 3) seen = sink_and_window(seen, 300);
    EXPECT_EQ(result->rows[0].top[0].token, best_after(seen));
  }
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].rows, 3);
  // The view shows the sink's block, and of 301 tokens those from 192 on.
  EXPECT_EQ(records[0].kv_tokens, 2 * (64 + 301 - 192) + 301);
  EXPECT_EQ(records[0].context_tokens, 301);
  EXPECT_EQ(rig.target.violations, 0);
}

TEST(KvView, WhatWasRunThroughAViewDoesNotBecomeTheTargetsPrefix) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  Rig rig({});
  for (SequenceId id = 1; id <= 2; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, text_of(300, 3)));
    ASSERT_TRUE(rig.next().has_value());
  }
  WorkItem draft = target_item(1, view);
  draft.rows.push_back(tree_row(9, 300, 0, kNoNode, Want::kTopK));
  rig.executor->submit(std::move(draft));
  ASSERT_TRUE(rig.next()->status.ok());
  WorkItem next = prefix_item(1, Role::kTarget, {7}, 301);
  next.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = {0}});
  rig.executor->submit(std::move(next));
  Status status = rig.next()->status;
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("node 0 was run through a view"), std::string::npos);
  WorkItem prefix = prefix_item(2, Role::kTarget, {7}, 300);
  prefix.view = view;
  rig.executor->submit(std::move(prefix));
  status = rig.next()->status;
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("position 300 through a view"), std::string::npos);
}

// A draft may compute its prefix through a view; such a prefix must not be shared.
TEST(KvView, ADraftsTextThroughAViewIsNotShared) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  Rig rig({.row_budget = 64});
  SequenceSpec spec = plain_spec();
  spec.share_prefix = true;
  const std::vector<TokenId> text = text_of(400, 3);
  int32_t reused = 0;
  for (SequenceId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(rig.executor->open(id, spec).ok());
    WorkItem item = prefix_item(id, Role::kDraft, text);
    if (id < 3) item.view = view;
    rig.executor->submit(std::move(item));
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok());
    reused = result->reused_rows;
  }
  // The window has everything up to its budget; beyond it each sequence has its own KV.
  EXPECT_EQ(reused, kBudget);
  EXPECT_EQ(rig.draft.violations, 0);
}

// However long the sequence gets, a draft model with a window holds only the blocks of window,
// sinks and running rows, and attends to the same tokens as if it held them all.
TEST(KvView, ADraftsKvOutsideOfItsWindowIsGivenBack) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  // The draft's best token is best_after()'s.
  Rig rig({.row_budget = 64, .draft_astray_one_in = uint64_t{1} << 40});
  SequenceSpec spec = plain_spec();
  spec.max_tokens = 3000;
  spec.share_prefix = true;
  ASSERT_TRUE(rig.executor->open(1, spec).ok());
  std::vector<TokenId> text;
  int64_t most = 0;
  // Reads a prompt in several Steps, then rows that catch up with a growing sequence.
  for (const int32_t end : {1500, 1501, 1537, 1600, 1601, 2500}) {
    const auto begin = static_cast<int32_t>(text.size());
    text = text_of(end, 7);
    WorkItem item = prefix_item(1, Role::kDraft, {text.begin() + begin, text.end()}, begin);
    item.view = view;
    rig.executor->submit(std::move(item));
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    most = std::max(most, rig.executor->kv_usage(Role::kDraft).used_blocks);
  }
  // The sequence has 40 blocks; the draft keeps those of the budget and one that the last Step
  // filled.
  EXPECT_LE(most, kBudget / kKvBlockTokens + 1);
  // Another strategy may later ask for all KV: its rows attend to what remains.
  text.push_back(1);
  for (const KvViewSpec& wider : {KvViewSpec{}, KvViewSpec{find_view("streaming_llm"), 1024},
                                  KvViewSpec{find_view("snapkv"), 512}}) {
    WorkItem item =
        prefix_item(1, Role::kDraft, {text.back()}, static_cast<int32_t>(text.size()) - 1);
    item.view = wider;
    rig.executor->submit(std::move(item));
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    // The view is that of the last item; its Step began behind 2,497 tokens.
    EXPECT_EQ(result->rows[0].token, best_after(sink_and_window(text, 2497)));
    text.push_back(2);
  }
  EXPECT_LE(rig.executor->kv_usage(Role::kDraft).used_blocks, kBudget / kKvBlockTokens + 1);
  rig.executor->close(1);
  EXPECT_EQ(rig.executor->kv_usage(Role::kDraft).used_blocks, 0);
  EXPECT_EQ(rig.draft.violations, 0);
}

}  // namespace
}  // namespace forerun
