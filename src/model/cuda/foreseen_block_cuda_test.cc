// Needs no GPU: a block is made on the host.
#include "model/cuda/foreseen_block_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace forerun::cuda {
namespace {

constexpr int32_t kHeadDim = 64;
constexpr int32_t kMostPosition = 40000;

// Sequences that decode, each with blocks of its own, taken as its text grows.
class Batch {
 public:
  Batch(int32_t sequences, int32_t longest, uint32_t seed) : rng_(seed) {
    for (int32_t idx = 0; idx < sequences; ++idx) {
      lengths_.push_back(1 + static_cast<int32_t>(rng_() % static_cast<uint32_t>(longest)));
      tables_.emplace_back();
      grow(lengths_.size() - 1);
    }
  }

  // Every sequence a token further.
  void decode() {
    for (size_t idx = 0; idx < lengths_.size(); ++idx) {
      ++lengths_[idx];
      grow(idx);
    }
  }
  void leave(size_t idx) {
    lengths_.erase(lengths_.begin() + static_cast<std::ptrdiff_t>(idx));
    tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(idx));
  }

  Step step() {
    Step step;
    for (size_t idx = 0; idx < lengths_.size(); ++idx) {
      const int32_t length = lengths_[idx];
      step.sequences.push_back({.block_table = tables_[idx].data()});
      step.rows.push_back({.token = static_cast<TokenId>(rng_() % 1000),
                           .position = length - 1,
                           .sequence_idx = static_cast<int32_t>(idx),
                           .slot = length - 1,
                           .visible = length,
                           .boundary = length,
                           .wants_logits = true});
    }
    return step;
  }
  std::vector<RowQuery> queries() {
    std::vector<RowQuery> queries(lengths_.size());
    for (RowQuery& query : queries) query.seed_low = static_cast<uint32_t>(rng_());
    return queries;
  }
  size_t size() const { return lengths_.size(); }

 private:
  void grow(size_t idx) {
    while (static_cast<int32_t>(tables_[idx].size()) * kTilePositions < lengths_[idx]) {
      tables_[idx].push_back(static_cast<int32_t>(rng_() % 100000));
      // As it is where a table moves to a larger place.
      tables_[idx] = std::vector<int32_t>(tables_[idx]);
    }
  }

  std::mt19937 rng_;
  std::vector<int32_t> lengths_;
  std::vector<std::vector<int32_t>> tables_;
};

StepShapeCuda shape_of(bool embeds = true, bool heads = true) {
  return {
      .attention = {.kv_parts = 8, .row_columns = 4, .most_partials = 1 << 16, .may_fuse = true},
      .head_dim = kHeadDim,
      .embeds = embeds,
      .heads = heads};
}

RopeTable angles() {
  RopeFrequencies frequencies;
  for (int32_t i = 0; i < kHeadDim / 2; ++i) frequencies.frequencies.push_back(1.0 / (i + 1));
  return RopeTable::create(frequencies, kMostPosition).value();
}

bool same(const StepBlockCuda& a, const StepBlockCuda& b) {
  return a.mode() == b.mode() && a.shared_prefix() == b.shared_prefix() &&
         a.num_rows() == b.num_rows() && a.num_wanted() == b.num_wanted() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

TEST(ForeseenBlock, IsWhatWouldHaveBeenBuilt) {
  RopeTable rope = angles();
  int32_t taken = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const auto sequences = static_cast<int32_t>(std::vector{4, 7, 16, 64, 256}[seed % 5]);
    Batch batch(sequences, seed % 3 == 0 ? 200 : 9000, seed);
    const StepShapeCuda shape = shape_of(seed % 4 != 1, seed % 4 != 2);
    ForeseenBlockCuda foreseen;
    StepBlockCuda block;
    Step step = batch.step();
    block.build(step, 0, step.rows.size(), batch.queries(), shape, rope);
    for (int32_t turn = 0; turn < 70; ++turn) {
      foreseen.foresee(step, kMostPassRows, shape, rope);
      batch.decode();
      step = batch.step();
      const std::vector<RowQuery> queries = batch.queries();
      StepBlockCuda built;
      built.build(step, 0, step.rows.size(), queries, shape, rope);
      ASSERT_TRUE(foreseen.take(step, queries, block)) << "seed " << seed << " turn " << turn;
      ASSERT_TRUE(same(block, built)) << "seed " << seed << " turn " << turn;
      ++taken;
    }
  }
  EXPECT_EQ(taken, 40 * 70);
}

// Whatever else comes is not taken for it, and nothing is taken twice.
TEST(ForeseenBlock, OtherStepsAreNotTaken) {
  RopeTable rope = angles();
  const StepShapeCuda shape = shape_of();
  ForeseenBlockCuda foreseen;
  StepBlockCuda block;
  Batch batch(8, 500, 1);
  const auto is_taken = [&](const Step& before, const Step& step) {
    foreseen.foresee(before, kMostPassRows, shape, rope);
    const std::vector<RowQuery> queries(step.rows.size());
    const bool taken = foreseen.take(step, queries, block);
    EXPECT_FALSE(foreseen.take(step, queries, block)) << "twice";
    return taken;
  };
  Step before = batch.step();
  EXPECT_FALSE(is_taken(before, before)) << "nobody has decoded";
  batch.decode();
  const Step next = batch.step();
  EXPECT_TRUE(is_taken(before, next));
  Step other = next;
  other.rows[3].wants_logits = false;
  EXPECT_FALSE(is_taken(before, other));
  other = next;
  other.rows[5].sequence_idx = 4;
  EXPECT_FALSE(is_taken(before, other)) << "two rows of a sequence";
  other = next;
  --other.rows[2].visible;
  --other.rows[2].boundary;
  --other.rows[2].slot;
  EXPECT_FALSE(is_taken(before, other)) << "through a view that has moved on";
  other = next;
  other.rows[7].boundary -= 1;
  EXPECT_FALSE(is_taken(before, other)) << "a row of a tree";
  other = next;
  other.selections.push_back({});
  EXPECT_FALSE(is_taken(before, other));
  batch.leave(2);
  EXPECT_FALSE(is_taken(before, batch.step())) << "one has left";
  // Nothing is foreseen behind trees, prompts, a few rows or the end of the context.
  Step tree = before;
  tree.rows[1].boundary -= 1;
  EXPECT_FALSE(is_taken(tree, next));
  Step prompt = before;
  prompt.rows[1].sequence_idx = 0;
  EXPECT_FALSE(is_taken(prompt, next));
  Batch few(2, 500, 2);
  before = few.step();
  few.decode();
  EXPECT_FALSE(is_taken(before, few.step()));
}

}  // namespace
}  // namespace forerun::cuda
