// Tests the edits of a row's logits: the arithmetic of each edit, their order, rows in parts, and
// that each row steps through its constraint only once.
#include "sampling/edit_list.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sampling/logits_processor.h"
#include "step/hash_constraint_rig.h"

namespace forerun {
namespace {

TEST(RowEdits, EachEditInItsPlace) {
  const std::vector<TokenBias> biases = {{0, 1.5f}, {2, -3.0f}, {6, 0.5f}};
  const std::vector<TokenCount> history = {{1, 0}, {2, 2}, {3, 1}};
  const std::vector<TokenCount> path = {{3, 2}, {4, 1}};
  RowEdits edits{.biases = biases,
                 .penalties = {.repetition = 2.0f, .presence = 0.25f, .frequency = 0.5f},
                 .history = history,
                 .path = path};
  std::vector<float> logits = {1.0f, 4.0f, 1.0f, 8.0f, -1.0f, 5.0f, -INFINITY};
  edit_logits(logits, 0, edits, {});
  EXPECT_EQ(logits[0], 2.5f);
  EXPECT_EQ(logits[1], 2.0f);  // a prompt token: penalized for repetition, not counted
  EXPECT_EQ(logits[2], -4.0f - 1.0f - 0.25f);  // biased below zero, then multiplied
  EXPECT_EQ(logits[3], 4.0f - 1.0f - 0.25f);   // penalized once, by the path's count
  EXPECT_EQ(logits[4], -2.0f - 0.5f - 0.25f);
  EXPECT_EQ(logits[5], 5.0f);
  EXPECT_EQ(logits[6], -INFINITY);
  edits.mask = 0;
  edit_logits(logits, 0, edits, std::vector<uint32_t>{0b1011110});
  EXPECT_EQ(logits[0], -INFINITY);
  EXPECT_EQ(logits[5], -INFINITY);
  EXPECT_TRUE(std::isfinite(logits[1]) && std::isfinite(logits[2]));
}

RowContext context_of(const SamplingParams& params, const TokenCounts& history) {
  RowContext context;
  context.params = &params;
  context.position = 20;
  context.prompt_tokens = 10;
  context.history = &history;
  return context;
}

TEST(EditList, EndTokensAreHeldBackByTheirPlace) {
  SamplingParams params;
  params.min_tokens = 12;
  params.end_tokens = {2, 5};
  params.logit_bias = {{2, 50.0f}, {3, 1.0f}};
  const TokenCounts history;
  EditList list;
  const auto edited = [&](int32_t position) {
    RowContext context = context_of(params, history);
    context.position = position;
    std::vector<float> logits(7, 1.0f);
    edit_logits(logits, 0, list.row(list.add(context)), {});
    return logits;
  };
  const std::vector<float> early = {1, 1, -INFINITY, 2, 1, -INFINITY, 1};
  const std::vector<float> late = {1, 1, 51, 2, 1, 1, 1};
  // Rows of one sequence; some may sample the 12th token and some the next one.
  for (const int32_t position : {10, 21, 22, 21, 22, 30}) {
    EXPECT_EQ(edited(position), position < 22 ? early : late) << position;
  }
  params.logit_bias.clear();
  RowContext context = context_of(params, history);
  EXPECT_TRUE(is_adjusted(context));
  context.position = 22;
  EXPECT_FALSE(is_adjusted(context));
}

TEST(EditList, PartsOfARowAreEditedAsTheWhole) {
  SamplingParams params;
  params.logit_bias = {{3, 2.0f}, {70, -100.0f}, {99, 1.0f}};
  params.repetition_penalty = 1.3f;
  params.presence_penalty = 0.5f;
  TokenCounts history;
  for (const TokenId token : {3, 15, 16, 80, 16}) history.add(token, false);
  const std::vector<TokenId> path = {16, 40, 16, 99};
  const HashConstraint constraint(4, 0);
  const TokenConstraint::State start = constraint.start();
  RowContext context = context_of(params, history);
  context.path = path;
  context.constraint = &constraint;
  context.constrained = &start;
  EditList list;
  const RowEdits& edits = list.row(list.add(context));
  EXPECT_EQ(std::vector<TokenCount>(edits.path.begin(), edits.path.end()),
            (std::vector<TokenCount>{{16, 4}, {40, 1}, {99, 1}}));
  std::vector<uint32_t> mask(4);
  list.write_mask(edits.mask, mask);
  std::vector<float> row(100);
  for (size_t token = 0; token < row.size(); ++token) {
    row[token] = std::sin(static_cast<float>(token)) * 7.0f;
  }
  std::vector<float> whole = row;
  edit_logits(whole, 0, edits, mask);
  for (size_t begin = 0; begin < row.size(); begin += 16) {
    const size_t count = std::min<size_t>(16, row.size() - begin);
    edit_logits(std::span(row).subspan(begin, count), static_cast<int32_t>(begin), edits, mask);
  }
  EXPECT_EQ(row, whole);
}

TEST(EditList, ARowGoesOnFromItsParent) {
  const SamplingParams params;
  const TokenCounts history;
  const HashConstraint constraint(9, 0);
  const TokenConstraint::State at_start = constraint.start();
  const TokenConstraint::State after_token = constraint.after(at_start, 5);
  constraint.steps = 0;
  const std::vector<std::vector<TokenId>> tree = {
      {},        {7},       {8},       {7, 1},    {7, 2},       {8, 1},
      {7, 2, 3}, {7, 2, 4}, {8, 1, 1}, {9, 9, 9}, {9, 9, 9, 1}, {7, 2, 4, 4, 4}};
  EditList list;
  for (const TokenConstraint::State* from : {&at_start, &after_token}) {
    for (const std::vector<TokenId>& path : tree) {
      RowContext context = context_of(params, history);
      context.path = path;
      context.constraint = &constraint;
      context.constrained = from;
      const int32_t edits = list.add(context);
      TokenConstraint::State state = *from;
      for (const TokenId token : path) {
        state = constraint.after(state, token);
        --constraint.steps;
      }
      std::vector<uint32_t> expected(3), found(3);
      constraint.allow(state, expected);
      list.write_mask(list.row(edits).mask, found);
      EXPECT_EQ(found, expected);
    }
  }
  // One per row except the root, and two more for each of the two with parents that want nothing.
  EXPECT_EQ(constraint.steps, 2 * (11 + 2 + 1));
  EXPECT_EQ(list.num_masks(), 24);
}

TEST(EditList, NothingIsMaskedWhereTheOutputCannotGoOn) {
  const SamplingParams params;
  const TokenCounts history;
  const HashConstraint constraint(9, 1);  // no token continues an output
  const TokenConstraint::State start = constraint.start();
  const std::vector<TokenId> path = {4, 5};
  RowContext context = context_of(params, history);
  context.path = path;
  context.constraint = &constraint;
  context.constrained = &start;
  EditList list;
  EXPECT_EQ(list.row(list.add(context)).mask, -1);
  EXPECT_EQ(list.num_masks(), 0);
}

TEST(EditList, DevicesTakeNoLongPaths) {
  SamplingParams params;
  params.logit_bias = {{3, 2.0f}, {4, 1.0f}};
  params.presence_penalty = 0.5f;
  TokenCounts history;
  RowContext context = context_of(params, history);
  EditList list;
  EXPECT_TRUE(list.fits_devices(list.add(context)));
  std::vector<TokenId> path(RowEdits::kMaxPath + 1);
  for (size_t index = 0; index < path.size(); ++index) path[index] = static_cast<TokenId>(index);
  context.path = path;
  context.position = 2000;
  EXPECT_FALSE(list.fits_devices(list.add(context)));
}

}  // namespace
}  // namespace forerun
