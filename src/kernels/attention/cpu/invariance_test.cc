// Checks that a row's bits depend only on its query and on the K and V of its visible positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/sanitized.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/test_cache.h"

namespace forerun {
namespace {

constexpr int32_t kHeads = 6;
constexpr int32_t kKvHeads = 2;
constexpr int32_t kHeadDim = 32;
constexpr int64_t kWidth = kHeads * kHeadDim;
constexpr int32_t kTokens = 700;

std::vector<int32_t> ascending(int32_t count, int32_t first = 0) {
  std::vector<int32_t> list(static_cast<size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

class AttentionInvariance : public testing::TestWithParam<DType> {
 protected:
  AttentionInvariance() : cache_(GetParam(), 24, kKvHeads, kHeadDim) {
    for (int32_t position = 0; position < kTokens; ++position) {
      cache_.put(table_, position, 1, position);
    }
  }
  AttentionRow prefix_row(int32_t position) const {
    AttentionRow row;
    row.last_visible = position;
    row.boundary = position + 1;
    row.block_table = table_.data();
    return row;
  }
  // Returns the result of the row at `position`, alone, on one thread, as a prefix row.
  std::vector<float> plain(int32_t position, int32_t window) const {
    return run_attention(query_of(1, position, kWidth), {prefix_row(position)}, cache_.kv(), kHeads,
                         window, 1);
  }
  std::vector<float> queries(const std::vector<AttentionRow>& rows) const {
    std::vector<float> q;
    for (const AttentionRow& row : rows) {
      const std::vector<float> query = query_of(1, row.last_visible, kWidth);
      q.insert(q.end(), query.begin(), query.end());
    }
    return q;
  }
  static std::vector<float> row_of(const std::vector<float>& out, size_t row_idx) {
    const auto begin = out.begin() + static_cast<int64_t>(row_idx) * kWidth;
    return {begin, begin + kWidth};
  }

  std::vector<int32_t> table_ = {4, 17, 0, 9, 2, 13, 6, 11, 1, 8, 3};  // 11 * 64 slots
  TestCache cache_;
};

TEST_P(AttentionInvariance, SlotsMayLieAnywhere) {
  // The same sequence lies in other blocks, with its last tokens permuted behind a boundary.
  const std::vector<int32_t> other = {23, 5, 7, 22, 10, 21, 12, 20, 14, 15, 16, 18};
  for (const int32_t position : {0, 63, 64, 130, 511, 640}) {
    for (const int32_t listed : {0, 1, 3, 64, 70, 131}) {
      if (listed > position + 1) continue;
      const int32_t boundary = position + 1 - listed;
      std::vector<int32_t> ancestors;
      ancestors.reserve(static_cast<size_t>(listed));
      for (int32_t index = 0; index < listed; ++index) {
        // The row takes every other slot, backwards; the gaps hold another branch.
        ancestors.push_back(std::min(boundary + 2 * (listed - 1 - index), 12 * 64 - 1 - index));
      }
      for (int32_t slot = boundary; slot < 12 * 64; ++slot) cache_.put(other, slot, 2, slot);
      for (int32_t q = 0; q <= position; ++q) {
        const int32_t slot = q < boundary ? q : ancestors[static_cast<size_t>(q - boundary)];
        cache_.put(other, slot, 1, q);
      }
      AttentionRow row = prefix_row(position);
      row.block_table = other.data();
      row.boundary = boundary;
      row.ancestors = ancestors.data();
      for (const int32_t window : {0, 40}) {
        EXPECT_EQ(
            run_attention(query_of(1, position, kWidth), {row}, cache_.kv(), kHeads, window, 1),
            plain(position, window))
            << "position " << position << " listed " << listed << " window " << window;
      }
    }
  }
}

TEST_P(AttentionInvariance, BoundaryMayLieAnywhere) {
  const std::vector<int32_t> slots = ascending(kTokens);
  for (const int32_t position : {5, 64, 320, 650}) {
    const std::vector<float> expected = plain(position, 0);
    for (int32_t boundary = 0; boundary <= position + 1; boundary += 13) {
      AttentionRow row = prefix_row(position);
      row.boundary = boundary;
      row.ancestors = slots.data() + boundary;
      EXPECT_EQ(run_attention(query_of(1, position, kWidth), {row}, cache_.kv(), kHeads, 0, 1),
                expected)
          << "position " << position << " boundary " << boundary;
    }
  }
}

TEST_P(AttentionInvariance, CompanionsAndTeamsDoNotMatter) {
  const std::vector<int32_t> slots = ascending(kTokens);
  for (const int32_t window : {0, 100}) {
    for (const int32_t num_rows : {1, 2, 8, 33, kSanitized ? 70 : 300}) {
      std::vector<AttentionRow> rows;
      for (int32_t index = 0; index < num_rows; ++index) {
        AttentionRow row = prefix_row(kTokens - num_rows + index);
        if (index % 5 == 3) {  // a tree row among prefix rows
          row.boundary = row.last_visible - 2;
          row.ancestors = slots.data() + row.boundary;
        }
        rows.push_back(row);
      }
      const std::vector<float> q = queries(rows);
      const std::vector<float> alone = run_attention(q, rows, cache_.kv(), kHeads, window, 1);
      for (const size_t row_idx : {size_t{0}, rows.size() / 2, rows.size() - 1}) {
        EXPECT_EQ(row_of(alone, row_idx), plain(rows[row_idx].last_visible, window))
            << "rows " << num_rows << " row " << row_idx << " window " << window;
      }
      for (const int32_t team_size : {2, 3}) {
        EXPECT_EQ(run_attention(q, rows, cache_.kv(), kHeads, window, team_size), alone)
            << "rows " << num_rows << " team " << team_size << " window " << window;
      }
    }
  }
}

TEST_P(AttentionInvariance, SpansAreSplitOverLargeTeams) {
  const std::vector<AttentionRow> rows = {prefix_row(690), prefix_row(10)};
  const std::vector<float> q = queries(rows);
  bool split_alone = true;
  bool split_three = false;
  const std::vector<float> alone = run_attention(q, rows, cache_.kv(), kHeads, 0, 1, &split_alone);
  EXPECT_EQ(run_attention(q, rows, cache_.kv(), kHeads, 0, 3, &split_three), alone);
  EXPECT_FALSE(split_alone);
  EXPECT_TRUE(split_three);
}

// The branches of a tree attend only to their own path: the sibling's KV may be anything, even NaN.
TEST_P(AttentionInvariance, SiblingsAreInvisible) {
  // Slots 500 and 502 hold path A (positions 500, 501); 501 and 503 hold path B of another
  // sequence.
  for (const int32_t slot : {501, 503}) cache_.put(table_, slot, 9, slot);
  cache_.put(table_, 500, 1, 500);
  cache_.put(table_, 502, 1, 501);
  const std::vector<int32_t> path_a = {500, 502};
  const std::vector<int32_t> path_b = {501, 503};
  AttentionRow a = prefix_row(501);
  a.boundary = 500;
  a.ancestors = path_a.data();
  AttentionRow b = a;
  b.ancestors = path_b.data();
  const std::vector<float> together =
      run_attention(queries({a, b}), {a, b}, cache_.kv(), kHeads, 0, 1);
  EXPECT_NE(row_of(together, 0), row_of(together, 1));  // the branches must differ
  cache_.put(table_, 501, 1, 501);                      // back to the plain sequence
  cache_.put(table_, 502, 1, 502);
  cache_.put(table_, 503, 1, 503);
  EXPECT_EQ(row_of(together, 0), plain(501, 0));
}

// A slot of NaN lies among slots that other rows of the call attend to: no row may compute 0 x NaN.
TEST_P(AttentionInvariance, NanIsSeenByThoseAloneWhoSeeItsSlot) {
  for (const int32_t poisoned : {64, 97, 107, 127}) {
    std::vector<AttentionRow> rows;
    for (int32_t position = 60; position < 140; ++position) rows.push_back(prefix_row(position));
    const std::vector<float> sound = run_attention(queries(rows), rows, cache_.kv(), kHeads, 0, 1);
    cache_.poison(table_, poisoned);
    for (const int32_t team_size : {1, 3}) {
      const std::vector<float> out =
          run_attention(queries(rows), rows, cache_.kv(), kHeads, 0, team_size);
      for (size_t row = 0; row < rows.size(); ++row) {
        if (rows[row].last_visible < poisoned) {
          EXPECT_EQ(row_of(out, row), row_of(sound, row)) << rows[row].last_visible;
        } else {
          EXPECT_TRUE(std::isnan(row_of(out, row)[0])) << rows[row].last_visible;
        }
      }
    }
    // The path avoids the poisoned slot: it takes slots behind it, for positions from there on.
    std::vector<int32_t> path;
    for (int32_t position = poisoned; position < poisoned + 5; ++position) {
      path.push_back(position + 1);
      cache_.put(table_, position + 1, 1, position);
    }
    AttentionRow branch = prefix_row(poisoned + 4);
    branch.boundary = poisoned;
    branch.ancestors = path.data();
    const std::vector<AttentionRow> both = {branch, prefix_row(poisoned)};
    const std::vector<float> out = run_attention(queries(both), both, cache_.kv(), kHeads, 0, 1);
    EXPECT_EQ(row_of(out, 0), row_of(sound, static_cast<size_t>(poisoned + 4 - 60)));
    for (int32_t slot = poisoned; slot < poisoned + 6; ++slot) cache_.put(table_, slot, 1, slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, AttentionInvariance, testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace forerun
