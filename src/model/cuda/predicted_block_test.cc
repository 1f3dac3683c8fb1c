// Needs no GPU, because the host builds blocks.
#include "model/cuda/predicted_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/logits_summary/cuda/logits_summary.h"

namespace forerun::cuda {
namespace {

constexpr int32_t kHeadDim = 64;
constexpr int32_t kMaxPosition = 40000;

// Sequences that decode. Each has its own blocks and takes more as it grows.
class Batch {
 public:
  Batch(int32_t sequences, int32_t longest, uint32_t seed) : rng_(seed) {
    for (int32_t idx = 0; idx < sequences; ++idx) {
      lengths_.push_back(1 + static_cast<int32_t>(rng_() % static_cast<uint32_t>(longest)));
      tables_.emplace_back();
      grow(lengths_.size() - 1);
    }
  }

  // Adds a token to every sequence.
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
      // Copies a table to another address, as growing does.
      tables_[idx] = std::vector<int32_t>(tables_[idx]);
    }
  }

  std::mt19937 rng_;
  std::vector<int32_t> lengths_;
  std::vector<std::vector<int32_t>> tables_;
};

StepShapeCuda shape_of(bool embeds = true, bool heads = true) {
  return {.attention = {.kv_parts = 8, .row_columns = 4, .max_partials = 1 << 16, .may_fuse = true},
          .head_dim = kHeadDim,
          .embeds = embeds,
          .heads = heads};
}

RopeTable angles() {
  RopeFrequencies frequencies;
  for (int32_t i = 0; i < kHeadDim / 2; ++i) frequencies.frequencies.push_back(1.0 / (i + 1));
  return RopeTable::create(frequencies, kMaxPosition).value();
}

bool same(const StepBlockCuda& a, const StepBlockCuda& b) {
  return a.kernel() == b.kernel() && a.shared_prefix() == b.shared_prefix() &&
         a.num_rows() == b.num_rows() && a.num_wanted() == b.num_wanted() &&
         std::ranges::equal(a.bytes(), b.bytes());
}

TEST(PredictedBlock, IsWhatWouldHaveBeenBuilt) {
  RopeTable rope = angles();
  int32_t taken = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const auto sequences = static_cast<int32_t>(std::vector{4, 7, 16, 64, 256}[seed % 5]);
    Batch batch(sequences, seed % 3 == 0 ? 200 : 9000, seed);
    const StepShapeCuda shape = shape_of(seed % 4 != 1, seed % 4 != 2);
    PredictedBlockCuda predicted;
    StepBlockCuda block;
    Step step = batch.step();
    block.build(step, 0, step.rows.size(), batch.queries(), shape, rope);
    for (int32_t turn = 0; turn < 70; ++turn) {
      predicted.predict(step, kMaxPassRows, shape, rope);
      batch.decode();
      step = batch.step();
      const std::vector<RowQuery> queries = batch.queries();
      StepBlockCuda built;
      built.build(step, 0, step.rows.size(), queries, shape, rope);
      ASSERT_TRUE(predicted.take(step, queries, block)) << "seed " << seed << " turn " << turn;
      ASSERT_TRUE(same(block, built)) << "seed " << seed << " turn " << turn;
      ++taken;
    }
  }
  EXPECT_EQ(taken, 40 * 70);
}

class ListedEdits : public StepEdits {
 public:
  const RowEdits& row(int32_t edits) const override { return rows[static_cast<size_t>(edits)]; }
  int32_t num_masks() const override { return 2; }
  void write_mask(int32_t, std::span<uint32_t>) const override {}
  std::vector<RowEdits> rows;
};

// Edits come behind all other data: rows share one copy of a common list, and rows that are copied
// whole have none.
TEST(PredictedBlock, EditsAreAppended) {
  const std::vector<TokenBias> biases = {{5, 1.5f}};
  const std::vector<TokenCount> history = {{1, 2}, {3, 0}, {9, 4}};
  const std::vector<TokenCount> paths[] = {{{3, 1}}, {{9, 5}, {4, 1}}};
  ListedEdits edits;
  for (const std::vector<TokenCount>& path : paths) {
    RowEdits& row = edits.rows.emplace_back();
    row.biases = biases;
    row.penalties = {.repetition = 1.2f, .presence = 0.5f, .frequency = 0.1f};
    row.history = history;
    row.path = path;
  }
  edits.rows[1].mask = 1;
  edits.rows.push_back(edits.rows[1]);
  RopeTable rope = angles();
  Batch batch(4, 500, 1);
  const Step before = batch.step();
  batch.decode();
  const Step step = batch.step();
  std::vector<RowQuery> queries(step.rows.size());
  for (RowQuery& query : queries) query.kinds = 0;
  queries[0].edits = 0;
  queries[2].edits = 1;
  queries[3].edits = 2;
  queries[3].kinds = RowQuery::kLogits;
  StepBlockCuda built;
  built.build(step, 0, step.rows.size(), queries, shape_of(), rope);
  const size_t bytes = built.bytes().size();
  const uint32_t masks[64] = {};
  built.append_edits(queries, edits, masks, 32);
  const auto* const begin = built.bytes().data();
  const auto* const header = reinterpret_cast<const StepHeaderCuda*>(begin);
  EXPECT_EQ(header->edits_offset, static_cast<int32_t>(bytes));
  EXPECT_EQ(header->bytes, static_cast<int32_t>(built.bytes().size()));
  EXPECT_EQ(built.bytes().size(), bytes + 2 * sizeof(RowEditsCuda) + 16 + 32 + 16 + 16);
  const auto* const rows = reinterpret_cast<const RowEditsCuda*>(begin + bytes);
  EXPECT_EQ(rows[0].mask, nullptr);
  EXPECT_EQ(rows[1].mask, masks + 32);
  EXPECT_EQ(rows[0].history_offset, rows[1].history_offset);
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(rows[row].penalties.repetition, 1.2f);
    EXPECT_EQ(rows[row].num_biases, 1);
    const auto* const bias = reinterpret_cast<const TokenBias*>(begin + rows[row].biases_offset);
    EXPECT_TRUE(bias->token == 5 && bias->bias == 1.5f);
    const auto list = [&](int32_t offset, int32_t count) {
      const auto* const first = reinterpret_cast<const TokenCount*>(begin + offset);
      return std::vector<TokenCount>(first, first + count);
    };
    EXPECT_EQ(list(rows[row].history_offset, rows[row].num_history), history);
    EXPECT_EQ(list(rows[row].path_offset, rows[row].num_path), paths[row]);
  }
  // The same must hold for a predicted block.
  PredictedBlockCuda predicted;
  predicted.predict(before, kMaxPassRows, shape_of(), rope);
  StepBlockCuda taken;
  ASSERT_TRUE(predicted.take(step, queries, taken));
  taken.append_edits(queries, edits, masks, 32);
  EXPECT_TRUE(same(taken, built));
}

// A prediction fits only its own Step, and only once.
TEST(PredictedBlock, OtherStepsAreNotTaken) {
  RopeTable rope = angles();
  const StepShapeCuda shape = shape_of();
  PredictedBlockCuda predicted;
  StepBlockCuda block;
  Batch batch(8, 500, 1);
  const auto is_taken = [&](const Step& before, const Step& step) {
    predicted.predict(before, kMaxPassRows, shape, rope);
    const std::vector<RowQuery> queries(step.rows.size());
    const bool taken = predicted.take(step, queries, block);
    EXPECT_FALSE(predicted.take(step, queries, block)) << "twice";
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
  // Nothing is predicted behind trees, prompts, a few rows or the end of the context.
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
