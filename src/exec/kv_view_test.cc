// Items through views, on the fake model: its logits are a function of exactly the tokens that a
// row sees, so what is expected is a plain loop over the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "exec/exec_rig_test.h"
#include "kernels/pq_index/pq_index.h"
#include "views/kv_index_blocks.h"
#include "views/view_table.h"

namespace forerun {
namespace {

constexpr int32_t kBudget = 192;

std::vector<TokenId> text_of(int32_t tokens, int32_t seed) {
  std::vector<TokenId> text;
  for (int32_t i = 0; i < tokens; ++i) text.push_back((i * i * 3 + i * seed + seed) % 53);
  return text;
}

// What the target says after these tokens.
TokenId best_after(const std::vector<TokenId>& seen) {
  std::vector<float> logits(kVocab + 4);
  fake_logits(fake_history(seen, 1), kVocab + 4, logits.data());
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.begin() + kVocab) -
                              logits.begin());
}

// StreamingLLM's part of `text`, whose first `prefix` tokens are the prefix.
std::vector<TokenId> sink_and_window(const std::vector<TokenId>& text, int32_t prefix) {
  const int32_t window = std::max(1, prefix / 64 + 1 - (kBudget / 64 - 1)) * 64;
  std::vector<TokenId> seen(text.begin(), text.begin() + 64);
  seen.insert(seen.end(), text.begin() + window, text.end());
  return seen;
}

WorkItem target_item(SequenceId sequence, const KvViewSpec& view) {
  WorkItem item;
  item.sequence = sequence;
  item.role = Role::kTarget;
  item.view = view;
  return item;
}

WorkRow tree_row(TokenId token, int32_t position, NodeId node, NodeId parent, Want want) {
  return {.token = token,
          .position = position,
          .node = node,
          .parent = parent,
          .want = want,
          .count = want == Want::kTopK ? 1 : 0};
}

// A chain is drafted through the view, across the end of a block, and then verified in the slots
// that the drafts wrote; plain rows go on from it.
TEST(KvView, DraftRowsSeeTheViewAndTheirVerificationSeesEverything) {
  const KvViewSpec view = {find_view("streaming_llm"), kBudget};
  for (const int32_t prefix : {64, 190, 192, 254, 255, 256, 300, 383}) {
    SCOPED_TRACE(prefix);
    Rig rig({});
    // A companion whose rows share the Steps.
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
    // Four drafts, of which the target will refuse some.
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
    // All of it becomes prefix, and plain decoding goes on.
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

// A head is chosen by observers in the Step of the first row that sees it, kept while the tail
// grows, and chosen anew; its blocks return with the sequence.
TEST(KvView, AChosenHeadIsGatheredOnceAndKept) {
  constexpr int32_t kTokens = 320;  // a head of 3 blocks, and at most 2 behind it
  const KvViewSpec view = {find_view("snapkv"), kTokens};
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(600)).ok());
  std::vector<TokenId> text = text_of(330, 11);
  rig.executor->submit(prefix_item(1, Role::kTarget, text));
  ASSERT_TRUE(rig.next()->status.ok());
  int32_t tail = 0;
  int32_t choices = 0;
  for (NodeId round = 0; round < 200; ++round) {
    const auto prefix = static_cast<int32_t>(text.size());
    const bool anew = tail == 0 || prefix / 64 + 1 - tail > 2;
    if (anew) tail = prefix / 64 - 1;
    choices += anew ? 1 : 0;
    WorkItem draft = target_item(1, view);
    draft.rows.push_back(tree_row(9, prefix, round, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(draft));
    records.clear();
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].rows, anew ? 33 : 1);
    // FakeDecoder's choice.
    const int32_t tokens = 64 * tail;
    std::vector<TokenId> seen;
    for (int32_t i = 0; i < 192; ++i) seen.push_back(text[static_cast<size_t>(i * tokens / 192)]);
    seen.insert(seen.end(), text.begin() + tokens, text.end());
    seen.push_back(9);
    ASSERT_EQ(result->rows[0].top[0].token, best_after(seen)) << prefix;
    text.push_back(static_cast<TokenId>(round % 50));
    WorkItem next = prefix_item(1, Role::kTarget, {text.back()}, prefix);
    next.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    rig.executor->submit(std::move(next));
    ASSERT_EQ(rig.next()->rows[0].token, best_after(text));
  }
  EXPECT_EQ(choices, 4);
  EXPECT_EQ(rig.target.violations, 0);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 530 / 64 + 1 + 3);
  rig.executor->close(1);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
}

// FakeDecoder's choice of a head of `chosen` tokens from the first `tokens`, and the rest.
std::vector<TokenId> even_and_tail(const std::vector<TokenId>& text, int32_t chosen,
                                   int32_t tokens) {
  std::vector<TokenId> seen;
  for (int32_t i = 0; i < chosen; ++i)
    seen.push_back(text[static_cast<size_t>(i * tokens / chosen)]);
  seen.insert(seen.end(), text.begin() + tokens, text.end());
  return seen;
}

// Every draft row chooses for itself, and nothing is run for it.
void expect_rows_choose_for_themselves(const KvViewSpec& view, int32_t index_blocks) {
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(600)).ok());
  std::vector<TokenId> text = text_of(250, 11);
  rig.executor->submit(prefix_item(1, Role::kTarget, text));
  ASSERT_TRUE(rig.next()->status.ok());
  // A chain, over the ends of two blocks.
  for (NodeId node = 0; node < 80; ++node) {
    WorkItem draft = target_item(1, view);
    draft.rows.push_back(tree_row(node % 50, 250 + static_cast<int32_t>(node), node,
                                  node == 0 ? kNoNode : node - 1, Want::kTopK));
    text.push_back(draft.rows[0].token);
    rig.executor->submit(std::move(draft));
    records.clear();
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].rows, 1);
    ASSERT_EQ(result->rows[0].top[0].token, best_after(even_and_tail(text, 128, 192))) << node;
  }
  EXPECT_EQ(rig.target.violations, 0);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 330 / 64 + 1 + 2 + index_blocks);
  rig.executor->close(1);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
}

TEST(KvView, RowsChooseForThemselves) {
  expect_rows_choose_for_themselves({find_view("topk"), kBudget}, 0);
}

TEST(KvView, RowsChooseByAnIndexThatGrows) {
  expect_rows_choose_for_themselves({find_view("pqcache"), kBudget}, kv_index_blocks(192, 64));
  // What has room made for it is what is laid out.
  for (const int32_t head_dim : {8, 16, 20, 64, 80, 128, 256}) {
    for (const int32_t tokens : {64, 256, 320, 1024, 1088, 32768}) {
      EXPECT_EQ(kv_index_blocks(tokens, head_dim), pq_index_blocks(tokens, head_dim));
    }
  }
  const KvViewSpec view = {find_view("pqcache"), kBudget};
  Rig rig({});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(1500)).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, text_of(1000, 11)));
  ASSERT_TRUE(rig.next()->status.ok());
  for (NodeId node = 0; node < 200; ++node) {
    WorkItem draft = target_item(1, view);
    if (node > 0) draft.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    draft.rows.push_back(
        tree_row(9, 1000 + static_cast<int32_t>(node), node, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(draft));
    ASSERT_TRUE(rig.next()->status.ok());
    WorkItem next = prefix_item(1, Role::kTarget, {7}, 1000 + static_cast<int32_t>(node));
    next.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    rig.executor->submit(std::move(next));
    ASSERT_TRUE(rig.next()->status.ok());
  }
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks,
            1200 / 64 + 1 + 2 + kv_index_blocks(1199 / 64 * 64, 64));
  EXPECT_EQ(rig.target.violations, 0);
  rig.executor->close(1);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
}

// The first head is chosen by rows that are run once more, each further one by the rows of a
// verification, which see everything as ever.
TEST(KvView, AVerificationChoosesForTheDraftsBehindIt) {
  const KvViewSpec view = {find_view("vegas"), 320};  // a head of 2 blocks
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(600)).ok());
  std::vector<TokenId> text = text_of(350, 11);
  rig.executor->submit(prefix_item(1, Role::kTarget, text));
  ASSERT_TRUE(rig.next()->status.ok());
  int32_t tail = 350 / 64 - 1;
  int32_t chosen_at = 350;
  int32_t choices = 0;
  std::vector<NodeId> verified;
  for (NodeId node = 0; node < 200; node += 3) {
    const auto prefix = static_cast<int32_t>(text.size());
    WorkItem draft = target_item(1, view);
    if (!verified.empty()) draft.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = verified});
    draft.rows.push_back(tree_row(9, prefix, node, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(draft));
    records.clear();
    const auto drafted = rig.next();
    ASSERT_TRUE(drafted && drafted->status.ok()) << drafted->status.message();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].rows, node == 0 ? 33 : 1);
    std::vector<TokenId> seen = text;
    seen.push_back(9);
    ASSERT_EQ(drafted->rows[0].top[0].token, best_after(even_and_tail(seen, 128, 64 * tail)))
        << prefix;
    WorkItem verify = target_item(1, {});
    verify.chooses_for = view;
    verify.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    verified.clear();
    for (int32_t row = 0; row < 3; ++row) {
      verified.push_back(node + row);
      verify.rows.push_back(tree_row((prefix + row) % 50, prefix + row, node + row,
                                     row == 0 ? kNoNode : node + row - 1, Want::kSample));
      text.push_back(verify.rows.back().token);
    }
    rig.executor->submit(std::move(verify));
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    EXPECT_EQ(records.back().rows, 3);
    ASSERT_EQ(result->rows.back().token, best_after(text));
    if (prefix - chosen_at < 16) continue;
    tail = prefix / 64 - 1;
    chosen_at = prefix;
    ++choices;
  }
  EXPECT_EQ(choices, 11);
  EXPECT_EQ(rig.target.violations, 0);
}

// A view's own blocks are blocks like any others.
TEST(KvView, AHeadWaitsForMemory) {
  const KvViewSpec view = {find_view("snapkv"), 320};
  Rig rig({.blocks = 9});
  for (const SequenceId id : {1, 2}) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, text_of(id == 1 ? 330 : 60, 3)));
    ASSERT_TRUE(rig.next()->status.ok());
  }
  WorkItem draft = target_item(1, view);
  draft.rows.push_back(tree_row(9, 330, 0, kNoNode, Want::kTopK));
  rig.executor->submit(std::move(draft));
  const auto waits = rig.next();
  ASSERT_TRUE(waits.has_value());
  EXPECT_TRUE(waits->waits_for_memory);
  EXPECT_NE(waits->status.message().find("view snapkv of 320 tokens needs 3 blocks"),
            std::string::npos)
      << waits->status.message();
  rig.executor->close(2);
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->status.ok()) << result->status.message();
  ASSERT_EQ(result->rows.size(), 1u);
}

// Views of two requests and everything of a third, in one Step: the Step's load is what is seen.
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
  // The sink's block, and of 301 tokens those from 192 on.
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

// A draft's text may be computed through a view; nobody takes it over.
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
  // The window has everything up to its budget; from there on each has its own.
  EXPECT_EQ(reused, kBudget);
  EXPECT_EQ(rig.draft.violations, 0);
}

}  // namespace
}  // namespace forerun
