// Checks of decoders' bits for the tests of all backends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/testing.h"

namespace forerun {

// Returns the logits of `part`, which begins at position `begin` and runs in Steps of
// `rows_per_step`.
inline std::vector<float> run_tokens(Decoder& decoder, std::span<const int32_t> part, int32_t begin,
                                     int64_t rows_per_step, std::vector<int32_t> blocks) {
  auto logits = SequenceDriver(&decoder, std::move(blocks)).run(part, begin, rows_per_step);
  EXPECT_TRUE(logits.ok()) << logits.status().message();
  return logits.ok() ? std::move(*logits) : std::vector<float>();
}

inline std::span<const int32_t> part_of(const std::vector<int32_t>& tokens, int32_t begin,
                                        int32_t end) {
  return std::span<const int32_t>(tokens).subspan(static_cast<size_t>(begin),
                                                  static_cast<size_t>(end - begin));
}

// Checks a tree behind a prefix of 250 tokens: one path of `depth` nodes continues `tokens` (at
// least 300), its siblings do not. The path must have the logits of plain decoding; it then becomes
// prefix, and the sequence continues. Uses blocks 0 to 5 and six from `first_block` on.
inline void expect_trees_and_commits(Decoder& decoder, const std::vector<int32_t>& tokens,
                                     int32_t depth, int32_t first_block) {
  constexpr int32_t kPrefix = 250;
  constexpr int32_t kEnd = 300;
  const int32_t vocab = decoder.config().vocab_size;
  const auto row = [vocab](const std::vector<float>& logits, int64_t row_idx) {
    return std::vector<float>(logits.begin() + row_idx * vocab,
                              logits.begin() + (row_idx + 1) * vocab);
  };
  const std::vector<float> expected =
      run_tokens(decoder, part_of(tokens, 0, kEnd), 0, 1, SequenceDriver::blocks_for(kEnd));
  const std::vector<int32_t> table = SequenceDriver::blocks_for(kEnd, first_block);
  run_tokens(decoder, part_of(tokens, 0, kPrefix), 0, kPrefix, table);
  // Each level has two nodes, the wrong one first; slots are in row order. The second half of the
  // levels runs in Steps of its own, which find the first half in the cache.
  std::vector<int32_t> path;
  std::vector<float> tree;
  Step step;
  const auto run_step = [&] {
    const Status ran = decoder.forward(step);
    ASSERT_TRUE(ran.ok()) << ran.message();
    const std::vector<float> part = copy_logits(decoder);
    tree.insert(tree.end(), part.begin(), part.end());
    step.clear();
  };
  for (int32_t level = 0; level < depth; ++level) {
    if (step.sequences.empty()) step.sequences.push_back({table.data()});
    const int32_t right = tokens[static_cast<size_t>(kPrefix + level)];
    for (const bool on_path : {false, true}) {
      StepRow node;
      node.token = on_path ? right : (right + 1) % vocab;
      node.position = kPrefix + level;
      node.slot = kPrefix + 2 * level + (on_path ? 1 : 0);
      node.visible = node.position + 1;
      node.boundary = kPrefix;
      node.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
      node.wants_logits = true;
      step.ancestors.insert(step.ancestors.end(), path.begin(), path.end());
      step.ancestors.push_back(node.slot);
      step.rows.push_back(node);
      if (on_path) path.push_back(node.slot);
    }
    if (level >= depth / 2) {
      ASSERT_NO_FATAL_FAILURE(run_step());
    }
  }
  for (int32_t level = 0; level < depth; ++level) {
    EXPECT_TRUE(row(tree, 2 * level + 1) == row(expected, kPrefix + level)) << "level " << level;
    EXPECT_FALSE(row(tree, 2 * level) == row(expected, kPrefix + level)) << "level " << level;
  }
  std::vector<KvMove> moves;
  moves.reserve(static_cast<size_t>(depth));
  for (int32_t level = 0; level < depth; ++level) {
    moves.push_back({path[static_cast<size_t>(level)], kPrefix + level});
  }
  ASSERT_TRUE(decoder.move_kv({table.data()}, moves).ok());
  const std::vector<float> rest =
      run_tokens(decoder, part_of(tokens, kPrefix + depth, kEnd), kPrefix + depth, 5, table);
  EXPECT_TRUE(rest ==
              std::vector<float>(expected.begin() + (kPrefix + depth) * vocab, expected.end()));
}

// Returns the logits of the three tokens at 250 of `tokens`, which attend to blocks 0 and 3 of the
// prefix and to each other. Checks that the bits are the same as prefix rows and as a chain of tree
// rows, in one Step or several, with a row of another sequence or alone. Uses five blocks from
// `first_block` on.
inline std::vector<float> logits_through_a_view(Decoder& decoder,
                                                const std::vector<int32_t>& tokens,
                                                int32_t first_block) {
  constexpr int32_t kBegin = 250;
  constexpr int32_t kRows = 3;
  constexpr int32_t kSkipped = 2 * kKvBlockTokens;
  const std::vector<int32_t> table = SequenceDriver::blocks_for(kBegin + kRows, first_block);
  const std::vector<int32_t> view = {table[0], table[3]};
  const std::vector<int32_t> other = {first_block + 4};
  run_tokens(decoder, part_of(tokens, 0, kBegin), 0, kBegin, table);
  std::vector<float> expected;
  for (const bool in_tree : {false, true}) {
    for (const int32_t rows_per_step : {kRows, 1}) {
      for (const bool with_other : {false, true}) {
        std::vector<float> logits;
        for (int32_t first = 0; first < kRows; first += rows_per_step) {
          Step step;
          step.sequences = {{view.data()}, {other.data()}};
          for (int32_t i = first; i < first + rows_per_step; ++i) {
            StepRow row;
            row.token = tokens[static_cast<size_t>(kBegin + i)];
            row.position = kBegin + i;
            row.visible = row.position + 1 - kSkipped;
            row.slot = row.visible - 1;
            row.boundary = in_tree ? kBegin - kSkipped : row.visible;
            row.ancestor_begin = static_cast<int32_t>(step.ancestors.size());
            for (int32_t slot = row.boundary; slot < row.visible; ++slot) {
              step.ancestors.push_back(slot);
            }
            row.wants_logits = true;
            step.rows.push_back(row);
          }
          if (with_other) {
            SequenceDriver::add_prefix_rows(step, 1, part_of(tokens, 0, 1), 0, false);
          }
          const Status ran = decoder.forward(step);
          EXPECT_TRUE(ran.ok()) << ran.message();
          const std::vector<float> part = copy_logits(decoder);
          logits.insert(logits.end(), part.begin(), part.end());
        }
        if (expected.empty()) expected = logits;
        EXPECT_TRUE(logits == expected) << "in a tree " << in_tree << ", rows " << rows_per_step
                                        << ", another sequence " << with_other;
      }
    }
  }
  return expected;
}

// Overwrites blocks with other KV.
inline void poison_blocks(Decoder& decoder, const std::vector<int32_t>& blocks) {
  const auto count = static_cast<int32_t>(blocks.size()) * kKvBlockTokens;
  Step step;
  step.sequences = {{blocks.data()}};
  SequenceDriver::add_prefix_rows(step, 0, std::vector<int32_t>(static_cast<size_t>(count), 7), 0,
                                  false);
  EXPECT_TRUE(decoder.forward(step).ok());
}

// The test has 330 tokens, and 300 of them are the prefix. It gathers all of the first 128 tokens,
// so that rows behind the copies attend to the same KV and must have the bits of plain decoding.
inline constexpr int32_t kGatheredPrefix = 300;
inline constexpr int32_t kGatheredTokens = 2 * kKvBlockTokens;
struct GatheredKv {
  const std::vector<int32_t>& tokens;
  std::vector<int32_t> table;   // the prefix
  std::vector<int32_t> view;    // two blocks to gather into, then the prefix's from the third on
  std::vector<float> expected;  // logits of plain decoding, [330][vocab]
};

// Lets the last 32 tokens of the prefix observe: they run again, write nothing and gather. A chain
// of three tokens runs behind the copies.
inline void expect_gathered_by_last_tokens(Decoder& decoder, const GatheredKv& of) {
  const int32_t vocab = decoder.config().vocab_size;
  // The observers share a pass with the rows that use their choice, come behind so many other rows
  // that they have their own pass, or end a pass.
  for (const int32_t others : {0, 1, 200, 230, 255, 256}) {
    Step step;
    step.sequences = {{of.table.data()}, {of.table.data()}, {of.view.data()}};
    SequenceDriver::add_prefix_rows(step, 0, part_of(of.tokens, 0, others), 0, false);
    SequenceDriver::add_prefix_rows(step, 1,
                                    part_of(of.tokens, kGatheredPrefix - 32, kGatheredPrefix),
                                    kGatheredPrefix - 32, true);
    for (size_t row = static_cast<size_t>(others); row < step.rows.size(); ++row) {
      step.rows[row].slot = kNoSlot;
    }
    step.selections.push_back({.first_row = others,
                               .num_rows = 32,
                               .sequence_idx = 1,
                               .first_weighed = kGatheredPrefix - 31,
                               .weighed_step = 1,
                               .tokens = kGatheredTokens,
                               .chosen = kGatheredTokens,
                               .pooling = 5,
                               .blocks = of.view.data()});
    SequenceDriver::add_prefix_rows(
        step, 2, part_of(of.tokens, kGatheredPrefix, kGatheredPrefix + 3), kGatheredPrefix, true);
    const Status ran = decoder.forward(step);
    ASSERT_TRUE(ran.ok()) << ran.message();
    const std::vector<float> found = copy_logits(decoder);
    ASSERT_EQ(found.size(), static_cast<size_t>(35 * vocab));
    EXPECT_TRUE(std::equal(found.begin() + 32 * vocab, found.end(),
                           of.expected.begin() + kGatheredPrefix * vocab))
        << others;
    const std::vector<float> rest = run_tokens(decoder, part_of(of.tokens, kGatheredPrefix, 330),
                                               kGatheredPrefix, 30, of.table);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), of.expected.begin() + kGatheredPrefix * vocab))
        << others;
  }
}

// Lets rows choose for themselves; then rows that attend to everything choose for others, and their
// own bits must not change.
inline void expect_gathered_by_own_rows(Decoder& decoder, const GatheredKv& of) {
  const int32_t vocab = decoder.config().vocab_size;
  for (const bool for_others : {false, true}) {
    poison_blocks(decoder, {of.view[0], of.view[1]});
    Step step;
    step.sequences = {{of.table.data()}, {of.view.data()}};
    SequenceDriver::add_prefix_rows(step, for_others ? 0 : 1,
                                    part_of(of.tokens, kGatheredPrefix, kGatheredPrefix + 3),
                                    kGatheredPrefix, true);
    step.selections.push_back({.first_row = 0,
                               .num_rows = 3,
                               .sequence_idx = 0,
                               .first_weighed = kGatheredPrefix,
                               .weighed_step = 0,
                               .tokens = kGatheredTokens,
                               .chosen = kGatheredTokens,
                               .pooling = 1,
                               .blocks = of.view.data()});
    for (int32_t run = 0; run < (for_others ? 2 : 1); ++run) {
      const Status ran = decoder.forward(step);
      ASSERT_TRUE(ran.ok()) << ran.message();
      const std::vector<float> found = copy_logits(decoder);
      EXPECT_TRUE(
          std::equal(found.begin(), found.end(), of.expected.begin() + kGatheredPrefix * vocab))
          << "for others " << for_others << ", run " << run;
      step.clear();
      step.sequences = {{of.view.data()}};
      SequenceDriver::add_prefix_rows(
          step, 0, part_of(of.tokens, kGatheredPrefix, kGatheredPrefix + 3), kGatheredPrefix, true);
    }
  }
}

// Checks that gathered KV gives the same bits. Uses blocks 0 to 5 and eight from `first_block` on.
inline void expect_gathered_kv_is_the_kv(Decoder& decoder, const std::vector<int32_t>& tokens,
                                         int32_t first_block) {
  GatheredKv of = {.tokens = tokens,
                   .table = SequenceDriver::blocks_for(330, first_block),
                   .view = {first_block + 7, first_block + 6},
                   .expected = run_tokens(decoder, part_of(tokens, 0, 330), 0, 330,
                                          SequenceDriver::blocks_for(330))};
  of.view.insert(of.view.end(), of.table.begin() + 2, of.table.end());
  run_tokens(decoder, part_of(tokens, 0, kGatheredPrefix), 0, kGatheredPrefix, of.table);
  expect_gathered_by_last_tokens(decoder, of);
  expect_gathered_by_own_rows(decoder, of);
}

// Checks that rows without logits still write their KV, and that another sequence in front only
// shifts rows. Needs 330 tokens; uses blocks 0 to 5 and six from `first_block` on.
inline void expect_unwanted_rows_and_others(Decoder& decoder, const std::vector<int32_t>& tokens,
                                            int32_t first_block) {
  const int32_t vocab = decoder.config().vocab_size;
  const std::vector<float> expected =
      run_tokens(decoder, part_of(tokens, 0, 330), 0, 1, SequenceDriver::blocks_for(330));
  const std::vector<int32_t> first = SequenceDriver::blocks_for(330, first_block);
  const std::vector<int32_t> second = {0, 1, 2, 3, 4, 5};
  for (const int32_t wanted_from : {0, 1, 299, 300}) {
    Step step;
    step.sequences.push_back({second.data()});
    step.sequences.push_back({first.data()});
    SequenceDriver::add_prefix_rows(step, 0, part_of(tokens, 40, 43), 0, true);
    SequenceDriver::add_prefix_rows(step, 1, part_of(tokens, 0, wanted_from), 0, false);
    SequenceDriver::add_prefix_rows(step, 1, part_of(tokens, wanted_from, 300), wanted_from, true);
    ASSERT_TRUE(decoder.forward(step).ok());
    const std::vector<float> found = copy_logits(decoder);
    ASSERT_EQ(found.size(), static_cast<size_t>((3 + 300 - wanted_from) * vocab));
    EXPECT_TRUE(
        std::equal(found.begin() + 3 * vocab, found.end(), expected.begin() + wanted_from * vocab))
        << "wanted from " << wanted_from;
    const std::vector<float> rest = run_tokens(decoder, part_of(tokens, 300, 330), 300, 30, first);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + 300 * vocab))
        << "wanted from " << wanted_from;
  }
}

}  // namespace forerun
