// Tests views with a chosen head: when it is chosen, by which rows, from which tokens, and with
// which blocks. The fake model attends to exactly the gathered tokens, so a plain loop gives the
// expected logits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/kv_view_rig.h"
#include "kernels/pq_index/pq_index.h"
#include "views/kv_index_blocks.h"

namespace forerun {
namespace {

// Returns FakeDecoder's choice of `chosen` tokens from the first `tokens`, and the other tokens
// behind them.
std::vector<TokenId> even_and_tail(const std::vector<TokenId>& text, int32_t chosen,
                                   int32_t tokens) {
  std::vector<TokenId> seen;
  seen.reserve(static_cast<size_t>(chosen) + text.size() - static_cast<size_t>(tokens));
  for (int32_t i = 0; i < chosen; ++i)
    seen.push_back(text[static_cast<size_t>(i * tokens / chosen)]);
  seen.insert(seen.end(), text.begin() + tokens, text.end());
  return seen;
}

// Observers choose a head in the Step of the first row that attends to it; it is kept while the
// tail grows, and then chosen anew. Its blocks are freed with the sequence.
TEST(KvView, AChosenHeadIsGatheredOnceAndKept) {
  constexpr int32_t kTokens = 256;  // a head of 3 blocks, and a tail of at most 3
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
    const bool anew = tail == 0 || prefix / 64 + 1 - tail > 3;
    if (anew) tail = (prefix - 32) / 64;
    choices += anew ? 1 : 0;
    WorkItem draft = target_item(1, view);
    draft.rows.push_back(tree_row(9, prefix, round, kNoNode, Want::kTopK));
    rig.executor->submit(std::move(draft));
    records.clear();
    const auto result = rig.next();
    ASSERT_TRUE(result && result->status.ok()) << result->status.message();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].rows, anew ? 33 : 1);
    std::vector<TokenId> seen = even_and_tail(text, 192, 64 * tail);
    seen.push_back(9);
    ASSERT_EQ(result->rows[0].top[0].token, best_after(seen)) << prefix;
    text.push_back(static_cast<TokenId>(round % 50));
    WorkItem next = prefix_item(1, Role::kTarget, {text.back()}, prefix);
    next.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
    rig.executor->submit(std::move(next));
    ASSERT_EQ(rig.next()->rows[0].token, best_after(text));
  }
  EXPECT_EQ(choices, 2);
  EXPECT_EQ(rig.target.violations, 0);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 530 / 64 + 1 + 3);
  rig.executor->close(1);
  EXPECT_EQ(rig.executor->kv_usage(Role::kTarget).used_blocks, 0);
}

// Expects that every draft row chooses for itself and that no further row runs for the choice.
void expect_rows_choose_for_themselves(const KvViewSpec& view, int32_t index_blocks) {
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(600)).ok());
  std::vector<TokenId> text = text_of(250, 11);
  rig.executor->submit(prefix_item(1, Role::kTarget, text));
  ASSERT_TRUE(rig.next()->status.ok());
  // The chain crosses the ends of two blocks.
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
  // The reserved blocks must equal those of the layout.
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

// Rows that run again choose the first head; the rows of a verification, which still attend to
// everything, choose each further one.
TEST(KvView, AVerificationChoosesForTheDraftsBehindIt) {
  const KvViewSpec view = {find_view("vegas"), 192};  // a head of 2 blocks
  std::vector<StepRecord> records;
  Rig rig({.on_step = [&](const StepRecord& record) { records.push_back(record); }});
  ASSERT_TRUE(rig.executor->open(1, plain_spec(600)).ok());
  std::vector<TokenId> text = text_of(350, 11);
  rig.executor->submit(prefix_item(1, Role::kTarget, text));
  ASSERT_TRUE(rig.next()->status.ok());
  int32_t tail = (350 - 32) / 64;
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
    tail = (prefix - 32) / 64;
    chosen_at = prefix;
    ++choices;
  }
  EXPECT_EQ(choices, 11);
  EXPECT_EQ(rig.target.violations, 0);
}

// A view's own blocks come from the common pool.
TEST(KvView, AHeadWaitsForMemory) {
  const KvViewSpec view = {find_view("snapkv"), 256};
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
  EXPECT_NE(waits->status.message().find("view snapkv of 256 tokens needs 3 blocks"),
            std::string::npos)
      << waits->status.message();
  rig.executor->close(2);
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->status.ok()) << result->status.message();
  ASSERT_EQ(result->rows.size(), 1u);
}

}  // namespace
}  // namespace forerun
