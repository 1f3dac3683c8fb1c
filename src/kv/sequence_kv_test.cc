#include "kv/sequence_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace forerun {
namespace {

// A storage that holds one number per slot, and the numbers that slots should hold: prefix numbers
// in order and one number per node, kept as plain maps.
class Model {
 public:
  Model(BlockPool* pool, std::vector<int64_t>* memory) : kv(pool, 4096), memory_(memory) {}

  int64_t& cell(int32_t slot) {
    const int32_t block = kv.block_table()[static_cast<size_t>(slot / kKvBlockTokens)];
    return (*memory_)[static_cast<size_t>(block * kKvBlockTokens + slot % kKvBlockTokens)];
  }

  void append_prefix(int64_t content) {
    ASSERT_TRUE(kv.reserve(1).ok());
    const int32_t slot = kv.append_prefix(0);
    ASSERT_EQ(slot, static_cast<int32_t>(prefix.size()));
    cell(slot) = content;
    prefix.push_back(content);
  }

  void append_tree(NodeId node, NodeId parent, int64_t content) {
    ASSERT_TRUE(kv.reserve(1).ok());
    const int32_t tree_idx =
        kv.append_tree(node, parent == kNoNode ? -1 : kv.find(parent), static_cast<TokenId>(node));
    cell(kv.slot_of(tree_idx)) = content;
    content_of[node] = content;
    parent_of[node] = parent;
  }

  void apply_moves() {
    std::vector<KvMove> moves;
    kv.take_moves(moves);
    for (size_t index = 0; index < moves.size(); ++index) {
      EXPECT_GT(moves[index].from_slot, moves[index].to_slot);
      if (index == 0) continue;
      EXPECT_GT(moves[index].from_slot, moves[index - 1].from_slot);
      EXPECT_GT(moves[index].to_slot, moves[index - 1].to_slot);
    }
    std::vector<int64_t> read;
    for (const KvMove& move : moves) read.push_back(cell(move.from_slot));
    for (size_t index = 0; index < moves.size(); ++index) {
      cell(moves[index].to_slot) = read[index];
    }
    moves_seen += static_cast<int64_t>(moves.size());
    kv.release_unused();
  }

  void commit(const std::vector<NodeId>& path) {
    ASSERT_TRUE(kv.commit(path).ok());
    for (NodeId node : path) prefix.push_back(content_of[node]);
    if (path.empty()) return;
    std::map<NodeId, int64_t> survivors;
    std::map<NodeId, NodeId> parents;
    for (const auto& [node, content] : content_of) {
      NodeId above = node;
      bool descends = false;
      while (parent_of[above] != kNoNode) {
        above = parent_of[above];
        descends |= above == path.back();
      }
      if (!descends) continue;
      survivors[node] = content;
      parents[node] = parent_of[node] == path.back() ? kNoNode : parent_of[node];
    }
    content_of = survivors;
    parent_of = parents;
  }

  void keep(const std::vector<NodeId>& nodes) {
    ASSERT_TRUE(kv.keep(nodes).ok());
    std::erase_if(content_of, [&](const auto& entry) {
      return std::find(nodes.begin(), nodes.end(), entry.first) == nodes.end();
    });
  }

  void check() {
    ASSERT_EQ(kv.prefix_length(), static_cast<int32_t>(prefix.size()));
    ASSERT_EQ(kv.tree_rows().size(), content_of.size());
    for (size_t slot = 0; slot < prefix.size(); ++slot) {
      ASSERT_EQ(cell(static_cast<int32_t>(slot)), prefix[slot]) << "slot " << slot;
    }
    std::set<int32_t> slots;
    for (const auto& [node, content] : content_of) {
      const int32_t tree_idx = kv.find(node);
      ASSERT_GE(tree_idx, 0);
      const SequenceKv::TreeRow& row = kv.tree_rows()[static_cast<size_t>(tree_idx)];
      ASSERT_EQ(row.node, node);
      ASSERT_EQ(row.token, static_cast<TokenId>(node));
      ASSERT_EQ(cell(kv.slot_of(tree_idx)), content);
      ASSERT_LT(row.parent_idx, tree_idx) << "parents come first";
      const NodeId parent =
          row.parent_idx < 0 ? kNoNode : kv.tree_rows()[static_cast<size_t>(row.parent_idx)].node;
      ASSERT_EQ(parent, parent_of[node]);
      int32_t depth = 0;
      for (NodeId above = parent; above != kNoNode; above = parent_of[above]) ++depth;
      ASSERT_EQ(row.position, kv.prefix_length() + depth);
      slots.insert(kv.slot_of(tree_idx));
    }
    if (!slots.empty()) {
      ASSERT_EQ(*slots.begin(), kv.prefix_length());
      ASSERT_EQ(*slots.rbegin(), kv.length() - 1);
    }
    ASSERT_EQ(static_cast<int32_t>(kv.block_table().size()),
              (kv.length() + kKvBlockTokens - 1) / kKvBlockTokens);
  }

  std::vector<NodeId> nodes() const {
    std::vector<NodeId> all;
    for (const auto& entry : content_of) all.push_back(entry.first);
    return all;
  }

  SequenceKv kv;
  std::vector<int64_t> prefix;
  std::map<NodeId, int64_t> content_of;
  std::map<NodeId, NodeId> parent_of;
  int64_t moves_seen = 0;

 private:
  std::vector<int64_t>* memory_;
};

// Applies random growth, commits and keeps to several sequences over one pool; often several edits
// come before their moves are carried out.
TEST(SequenceKv, RandomEditsNeverLoseASurvivingNode) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 rng(seed);
    BlockPool pool(64);
    std::vector<int64_t> memory(64 * kKvBlockTokens, -1);
    std::vector<std::unique_ptr<Model>> models;
    for (int index = 0; index < 3; ++index) {
      models.push_back(std::make_unique<Model>(&pool, &memory));
    }
    int64_t content = 0;
    NodeId next_node = 0;
    int branched = 0;
    for (int round = 0; round < 120; ++round) {
      Model& model = *models[rng() % 3];
      if (model.content_of.empty() && model.prefix.size() < 700) {
        const auto count = rng() % 90;
        for (size_t row = 0; row < count; ++row) model.append_prefix(content++);
      }
      const auto growth = rng() % 24;
      for (size_t row = 0; row < growth; ++row) {
        const auto known = model.nodes();
        const NodeId parent =
            known.empty() || rng() % 6 == 0 ? kNoNode : known[rng() % known.size()];
        model.append_tree(next_node++, parent, content++);
      }
      model.check();
      const auto edits = rng() % 3;
      for (size_t edit = 0; edit < edits; ++edit) {
        const auto known = model.nodes();
        if (known.empty()) break;
        if (rng() % 2 == 0) {
          std::vector<NodeId> path;
          for (NodeId node = known[rng() % known.size()]; node != kNoNode;
               node = model.parent_of[node]) {
            path.insert(path.begin(), node);
          }
          const size_t before = model.content_of.size();
          model.commit(path);
          branched += model.content_of.size() + path.size() < before ? 1 : 0;
        } else {
          std::set<NodeId> kept;
          for (NodeId node : known) {
            const NodeId parent = model.parent_of[node];
            if (rng() % 4 != 0 && (parent == kNoNode || kept.contains(parent))) kept.insert(node);
          }
          std::vector<NodeId> shuffled(kept.begin(), kept.end());
          std::shuffle(shuffled.begin(), shuffled.end(), rng);
          model.keep(shuffled);
        }
      }
      model.apply_moves();
      for (const auto& each : models) each->check();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(branched, 0) << "the trees must branch";
    EXPECT_GT(models[0]->moves_seen + models[1]->moves_seen + models[2]->moves_seen, 0);
    models.clear();
    EXPECT_EQ(pool.used_blocks(), 0);
  }
}

TEST(SequenceKv, WrongEditsAreRefusedAndChangeNothing) {
  BlockPool pool(4);
  std::vector<int64_t> memory(4 * kKvBlockTokens);
  Model model(&pool, &memory);
  model.append_prefix(1);
  model.append_tree(10, kNoNode, 2);
  model.append_tree(11, 10, 3);
  model.append_tree(12, 10, 4);
  for (const std::vector<NodeId>& path : {std::vector<NodeId>{11}, {10, 99}, {10, 11, 12}}) {
    EXPECT_EQ(model.kv.commit(path).code(), StatusCode::kInternal);
  }
  for (const std::vector<NodeId>& nodes : {std::vector<NodeId>{11}, {10, 99}}) {
    EXPECT_EQ(model.kv.keep(nodes).code(), StatusCode::kInternal);
  }
  EXPECT_TRUE(model.kv.commit({}).ok());
  model.check();
}

TEST(SequenceKv, AFullPoolIsReportedWithItsFigures) {
  BlockPool pool(2);
  SequenceKv kv(&pool, 1000);
  ASSERT_TRUE(kv.reserve(100).ok());
  for (int row = 0; row < 100; ++row) kv.append_prefix(0);
  const Status status = kv.reserve(100);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("200 tokens need 4 blocks"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("0 of 2 are free"), std::string::npos) << status.message();
  EXPECT_EQ(kv.block_table().size(), 2u);
}

TEST(SequenceKv, TruncateTakesRowsBack) {
  BlockPool pool(2);
  SequenceKv kv(&pool, 100);
  ASSERT_TRUE(kv.reserve(10).ok());
  for (int row = 0; row < 4; ++row) kv.append_prefix(0);
  kv.append_tree(1, -1, 5);
  kv.append_tree(2, 0, 6);
  kv.truncate(4, 1);
  EXPECT_EQ(kv.find(2), -1);
  EXPECT_EQ(kv.find(1), 0);
  kv.truncate(2, 0);
  EXPECT_EQ(kv.length(), 2);
}

TEST(BlockPool, CountsHolders) {
  BlockPool pool(2);
  const int32_t a = pool.allocate();
  const int32_t b = pool.allocate();
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.allocate(), -1);
  pool.share(a);
  pool.release(a);
  EXPECT_EQ(pool.holders(a), 1);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.release(a);
  EXPECT_EQ(pool.allocate(), a);
}

TEST(SequenceKv, BlocksLetGoReturnToThePoolAndTheOthersStay) {
  BlockPool pool(8);
  SequenceKv kv(&pool, 8 * kKvBlockTokens);
  const auto grow = [&](int32_t blocks) {
    ASSERT_TRUE(kv.reserve(blocks * kKvBlockTokens).ok());
    for (int32_t row = 0; row < blocks * kKvBlockTokens; ++row) kv.append_prefix(row);
  };
  grow(5);
  const std::vector<int32_t> before(kv.block_table().begin(), kv.block_table().end());
  kv.let_go(1, 1);
  EXPECT_EQ(pool.used_blocks(), 5);
  EXPECT_EQ(kv.let_go_end(), 0);
  kv.let_go(1, 3);
  kv.let_go(1, 4);
  kv.let_go(1, 4);
  EXPECT_EQ(pool.used_blocks(), 2);
  EXPECT_EQ(kv.let_go_end(), 4);
  EXPECT_EQ(std::vector<int32_t>(kv.block_table().begin(), kv.block_table().end()),
            (std::vector<int32_t>{before[0], -1, -1, -1, before[4]}));
  // The freed blocks are available: six of eight blocks are free, and the sequence grows where it
  // was.
  grow(3);
  EXPECT_EQ(kv.prefix_length(), 8 * kKvBlockTokens);
  EXPECT_EQ(pool.used_blocks(), 5);
  const Status full = kv.reserve(4 * kKvBlockTokens);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("need 9 blocks of 64, the sequence holds 5, 3 of 8 are free"),
            std::string::npos)
      << full.message();
}

}  // namespace
}  // namespace forerun
