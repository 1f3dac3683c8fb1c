// Tests a role over stages: several Steps are in flight, and results must be as if each had run at
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exec/exec_rig.h"

namespace forerun {
namespace {

TokenId greedy(const std::vector<TokenId>& history) {
  std::vector<float> logits(kVocab);
  fake_logits(fake_history(history, 1), kVocab, logits.data());
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A gate that holds the stages' Steps until it opens, and counts them.
class Gate {
 public:
  std::function<void(int32_t)> for_stages() {
    return [this](int32_t stage) {
      std::unique_lock lock(mutex_);
      ++arrived_[static_cast<size_t>(stage)];
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    };
  }
  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  // Waits until this many Steps have come to the stage; returns false if they do not.
  bool wait_for(int32_t stage, int steps) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kTimeout,
                             [&] { return arrived_[static_cast<size_t>(stage)] >= steps; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<int> arrived_ = std::vector<int>(16, 0);
};

Rig::Options staged(int32_t stages, std::function<void(int32_t)> in_stage = {}) {
  return {.threaded = true, .stages = stages, .in_stage = std::move(in_stage)};
}

WorkItem tree_item(SequenceId sequence, uint64_t tag, NodeId node, NodeId parent, TokenId token,
                   int32_t position) {
  WorkItem item;
  item.sequence = sequence;
  item.tag = tag;
  WorkRow row;
  row.token = token;
  row.position = position;
  row.node = node;
  row.parent = parent;
  row.want = Want::kSample;
  item.rows.push_back(row);
  return item;
}

// A node is submitted before its parent's result; the edits that commit parents come while their
// children are in flight.
TEST(RolePipeline, ItemsOfASequenceFollowEachOther) {
  for (const int32_t stages : {2, 4, 8}) {
    Rig rig(staged(stages));
    ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
    rig.executor->submit(prefix_item(1, Role::kTarget, {3, 4, 5}));
    std::vector<TokenId> text = {3, 4, 5};
    std::vector<TokenId> expected = {greedy(text)};
    constexpr NodeId kNodes = 40;
    for (NodeId node = 0; node < kNodes; ++node) {
      const auto token = static_cast<TokenId>(node % 50);
      const NodeId parent = node == 0 || node % 8 == 0 ? kNoNode : node - 1;
      WorkItem item = tree_item(1, static_cast<uint64_t>(node), node, parent, token,
                                static_cast<int32_t>(text.size()));
      if (node > 0 && node % 8 == 0) {
        // Makes the whole chain so far part of the prefix.
        std::vector<NodeId> chain;
        for (NodeId past = node - 8; past < node; ++past) chain.push_back(past);
        item.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = std::move(chain)});
      }
      rig.executor->submit(std::move(item));
      text.push_back(token);
      expected.push_back(greedy(text));
    }
    for (size_t idx = 0; idx < expected.size(); ++idx) {
      const auto result = rig.next();
      ASSERT_TRUE(result.has_value());
      ASSERT_TRUE(result->status.ok()) << result->status.message();
      EXPECT_EQ(result->tag, idx == 0 ? 0 : idx - 1);
      ASSERT_EQ(result->rows.size(), 1u);
      EXPECT_EQ(result->rows[0].token, expected[idx]) << idx;
    }
    rig.end(1);
  }
}

TEST(RolePipeline, TellsWhenTheFirstStageIsFree) {
  Gate gate;
  Rig rig(staged(3, gate.for_stages()));
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  WorkItem first = prefix_item(1, Role::kTarget, {3, 4});
  first.tag = 10;
  first.tells_entry = true;
  rig.executor->submit(std::move(first));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  // The first stage is held, so there is no event yet.
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(5)).has_value());
  gate.set_open(true);
  const auto notice = rig.next();
  ASSERT_TRUE(notice.has_value());
  EXPECT_TRUE(notice->entered);
  EXPECT_EQ(notice->tag, 10u);
  EXPECT_EQ(notice->sequence, 1u);
  EXPECT_TRUE(notice->rows.empty());
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->entered);
  EXPECT_EQ(result->tag, 10u);
  EXPECT_EQ(result->rows.size(), 1u);
  // No item asked for an entry notice, so none comes.
  rig.executor->submit(tree_item(1, 11, 0, kNoNode, 5, 2));
  const auto unasked = rig.next();
  ASSERT_TRUE(unasked.has_value());
  EXPECT_FALSE(unasked->entered);
  EXPECT_EQ(unasked->tag, 11u);
  EXPECT_FALSE(rig.next().has_value());
}

TEST(RolePipeline, EveryStageHasWork) {
  constexpr int32_t kStages = 4;
  Gate gate;
  Rig rig(staged(kStages, gate.for_stages()));
  // Runs all prompts first, so that afterwards only decoding requests are spread over the stages.
  gate.set_open(true);
  constexpr SequenceId kRequests = 16;
  for (SequenceId id = 1; id <= kRequests; ++id) {
    ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
    rig.executor->submit(prefix_item(id, Role::kTarget, {static_cast<TokenId>(id), 2}));
  }
  for (SequenceId id = 1; id <= kRequests; ++id) ASSERT_TRUE(rig.next().has_value());
  rig.target.largest_step = 0;
  gate.set_open(false);
  for (SequenceId id = 1; id <= kRequests; ++id) {
    rig.executor->submit(tree_item(id, 0, 0, kNoNode, 9, 2));
  }
  // The first Step is held at the first stage, and the second one waits behind it.
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  gate.set_open(true);
  for (SequenceId id = 1; id <= kRequests; ++id) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->rows.at(0).token, greedy({static_cast<TokenId>(result->sequence), 2, 9}));
  }
  EXPECT_EQ(rig.target.largest_step, kRequests / kStages);
}

// Requests that submit their next node as soon as the previous one has entered.
class Followers {
 public:
  explicit Followers(Rig& rig) : rig_(rig) {}

  void begin(SequenceId id) {
    ASSERT_TRUE(rig_.executor->open(id, plain_spec()).ok());
    WorkItem prompt = prefix_item(id, Role::kTarget, {static_cast<TokenId>(id), 2});
    prompt.tells_entry = true;
    texts_[id] = {static_cast<TokenId>(id), 2};
    rig_.executor->submit(std::move(prompt));
  }
  // Runs until this many more results have come.
  void go_on(int results) {
    while (results > 0) {
      const auto result = rig_.next();
      ASSERT_TRUE(result.has_value());
      ASSERT_TRUE(result->status.ok()) << result->status.message();
      std::vector<TokenId>& text = texts_.at(result->sequence);
      if (!result->entered) {
        ASSERT_EQ(result->rows.size(), 1u);
        const auto length = static_cast<std::ptrdiff_t>(result->tag) + 2;
        EXPECT_EQ(result->rows[0].token, greedy({text.begin(), text.begin() + length}));
        --results;
        continue;
      }
      const auto node = static_cast<NodeId>(text.size() - 2);
      WorkItem item = tree_item(result->sequence, node + 1, node, node == 0 ? kNoNode : node - 1,
                                static_cast<TokenId>((text.size() * result->sequence) % 50),
                                static_cast<int32_t>(text.size()));
      item.tells_entry = true;
      text.push_back(item.rows.front().token);
      rig_.executor->submit(std::move(item));
    }
  }
  void end() {
    for (const auto& [id, text] : texts_) rig_.executor->close(id);
    rig_.end(0);
  }

 private:
  Rig& rig_;
  std::map<SequenceId, std::vector<TokenId>> texts_;  // includes all submitted nodes
};

// Returns the numbers of sequences of the last Steps while the followers ran. Once they stop, they
// have at most one item each left, which fills no Step.
std::set<int32_t> last_steps(const std::vector<int32_t>& sequences) {
  constexpr int kSteps = 8;
  constexpr int kAfterTheEnd = 4;
  return {sequences.end() - kSteps - kAfterTheEnd, sequences.end() - kAfterTheEnd};
}

// A request that comes while others fill the pipeline must share their Steps, and each must have a
// row in every Step.
TEST(RolePipeline, RequestsThatFillThePipelineGoTogether) {
  std::vector<int32_t> sequences;
  Rig::Options options = staged(4);
  options.on_step = [&](const StepRecord& step) { sequences.push_back(step.sequences); };
  Rig rig(options);
  Followers followers(rig);
  for (SequenceId id = 1; id <= 4; ++id) followers.begin(id);
  followers.go_on(60);
  followers.begin(5);
  followers.go_on(100);
  followers.end();
  ASSERT_GE(sequences.size(), 30u);
  EXPECT_EQ(sequences[10], 4);
  EXPECT_EQ(last_steps(sequences), std::set<int32_t>{5});
}

// A Step takes as many of their rows as are nearly free; the others go into the next one.
TEST(RolePipeline, RowsThatCostMuchWaitForTheNextStep) {
  LiveCosts live;
  StepCosts costs;
  for (const int32_t rows : {1, 3}) costs.add(Role::kTarget, {.rows = rows}, 1e-3);
  for (const int32_t rows : {4, 8}) costs.add(Role::kTarget, {.rows = rows}, 2e-3);
  live.set(costs);
  std::vector<int32_t> sequences;
  Rig::Options options = staged(4);
  options.costs = &live;
  options.on_step = [&](const StepRecord& step) { sequences.push_back(step.sequences); };
  Rig rig(options);
  Followers followers(rig);
  for (SequenceId id = 1; id <= 6; ++id) followers.begin(id);
  followers.go_on(90);
  followers.end();
  ASSERT_GE(sequences.size(), 20u);
  EXPECT_EQ(last_steps(sequences), std::set<int32_t>{3});
}

TEST(RolePipeline, AClosedSequenceKeepsItsBlocksUntilItsStepsAreOver) {
  Gate gate;
  Rig rig(staged(3, gate.for_stages()));
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, {3, 4}));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  rig.executor->close(1);
  // The same id is opened again while a Step of the closed sequence is in flight.
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  WorkItem again = prefix_item(1, Role::kTarget, {7});
  again.tag = 5;
  rig.executor->submit(std::move(again));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(5)).has_value());
  EXPECT_GE(rig.executor->kv_usage(Role::kTarget).used_blocks, 1);
  gate.set_open(true);
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->tag, 5u);
  EXPECT_EQ(result->rows.at(0).token, greedy({7}));
  EXPECT_FALSE(rig.next().has_value());
  rig.end(1);
}

// Stages skip rows that edits drop before the stages reach them, and the result leaves them out.
TEST(RolePipeline, DroppedRowsAreSkipped) {
  Gate gate;
  Rig rig(staged(3, gate.for_stages()));
  ASSERT_TRUE(rig.executor->open(1, plain_spec()).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, {3, 4}));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  // Submits two siblings and a child of each, while the prompt holds the first stage.
  const auto submit = [&](uint64_t tag, NodeId first, NodeId second, bool below) {
    WorkItem item;
    for (const NodeId node : {first, second}) {
      WorkItem row_item = tree_item(1, tag, node, below ? node - 2 : kNoNode,
                                    static_cast<TokenId>(10 + node), below ? 3 : 2);
      if (node == first) {
        item = std::move(row_item);
      } else {
        item.rows.push_back(row_item.rows.front());
      }
    }
    item.tells_entry = true;
    rig.executor->submit(std::move(item));
  };
  submit(1, 0, 1, /*below=*/false);
  submit(2, 2, 3, /*below=*/true);
  // Drops node 1 and its descendants, then node 2 as well.
  WorkItem edits;
  edits.sequence = 1;
  edits.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = {0}});
  edits.edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
  rig.executor->submit(std::move(edits));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(5)).has_value());
  gate.set_open(true);
  std::vector<WorkResult> results;
  int notices = 0;
  while (auto result = rig.next()) {
    ASSERT_TRUE(result->status.ok()) << result->status.message();
    if (result->entered) {
      ++notices;
    } else {
      results.push_back(std::move(*result));
    }
  }
  // A notice that waits for a result that is due may be overtaken by its own item's result.
  EXPECT_LE(notices, 2);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[1].tag, 1u);
  ASSERT_EQ(results[1].rows.size(), 1u);
  EXPECT_EQ(results[1].rows[0].node, 0);
  EXPECT_EQ(results[1].rows[0].token, greedy({3, 4, 10}));
  EXPECT_FALSE(results[1].left_out);
  EXPECT_EQ(results[2].tag, 2u);
  EXPECT_TRUE(results[2].rows.empty());
  EXPECT_TRUE(results[2].left_out);
  // The sequence continues from the committed node.
  rig.executor->submit(tree_item(1, 3, 7, kNoNode, 20, 3));
  const auto after = rig.next();
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->rows.at(0).token, greedy({3, 4, 10, 20}));
  rig.end(1);
  // Stages ran only the prompt, node 0 and the last row, because the edits arrived before any stage
  // came to the others.
  for (const auto& stage : rig.earlier) EXPECT_EQ(stage->rows_run, 4);
  EXPECT_EQ(rig.target.rows_run, 4);
}

TEST(RolePipeline, AFailureEndsItsSequencesInOrder) {
  Gate gate;
  Rig rig(staged(3, gate.for_stages()));
  for (const SequenceId id : {1, 2}) ASSERT_TRUE(rig.executor->open(id, plain_spec()).ok());
  rig.earlier[1]->fail = true;
  rig.executor->submit(prefix_item(1, Role::kTarget, {3, 4}));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  for (NodeId node = 0; node < 4; ++node) {
    rig.executor->submit(tree_item(1, static_cast<uint64_t>(node) + 1, node,
                                   node == 0 ? kNoNode : node - 1, 8, 2 + node));
  }
  gate.set_open(true);
  for (uint64_t tag = 0; tag <= 4; ++tag) {
    const auto result = rig.next();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->tag, tag);
    EXPECT_EQ(result->status.code(), StatusCode::kInternal) << tag;
    EXPECT_NE(result->status.message().find("stage 2 of 3"), std::string::npos)
        << result->status.message();
    EXPECT_TRUE(result->rows.empty());
  }
  rig.executor->close(1);
  rig.earlier[1]->fail = false;
  rig.executor->submit(prefix_item(2, Role::kTarget, {9}));
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->status.ok()) << result->status.message();
  rig.executor->close(2);
  rig.wait_until_kv_is_free();
}

TEST(RolePipeline, APromptFillsTheStages) {
  constexpr int32_t kStages = 4;
  constexpr int32_t kTokens = 1024;
  Gate gate;
  Rig::Options options = staged(kStages, gate.for_stages());
  options.row_budget = 512;
  Rig rig(options);
  ASSERT_TRUE(rig.executor->open(1, plain_spec(2000)).ok());
  std::vector<TokenId> prompt;
  for (int32_t at = 0; at < kTokens; ++at) prompt.push_back(at * at % kVocab);
  rig.executor->submit(prefix_item(1, Role::kTarget, prompt));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  gate.set_open(true);
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  ASSERT_TRUE(result->status.ok()) << result->status.message();
  EXPECT_EQ(result->rows.at(0).token, greedy(prompt));
  // The pieces must be small enough to keep all stages busy.
  EXPECT_LE(rig.target.largest_step, kTokens / (2 * kStages));
  EXPECT_TRUE(gate.wait_for(0, 2 * kStages));
  rig.end(1);
}

// Blocks that a closed sequence still holds are freed without help: no result asks for memory.
TEST(RolePipeline, BlocksOfClosedSequencesAreWaitedFor) {
  Gate gate;
  Rig::Options options = staged(2, gate.for_stages());
  options.blocks = 2;
  Rig rig(options);
  ASSERT_TRUE(rig.executor->open(1, plain_spec(120)).ok());
  rig.executor->submit(prefix_item(1, Role::kTarget, std::vector<TokenId>(100, 3)));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(1)).has_value());
  ASSERT_TRUE(gate.wait_for(0, 1));
  rig.executor->close(1);
  ASSERT_TRUE(rig.executor->open(2, plain_spec(120)).ok());
  rig.executor->submit(prefix_item(2, Role::kTarget, std::vector<TokenId>(100, 4)));
  EXPECT_FALSE(rig.executor->next(std::chrono::milliseconds(5)).has_value());
  gate.set_open(true);
  const auto result = rig.next();
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->waits_for_memory);
  EXPECT_EQ(result->rows.at(0).token, greedy(std::vector<TokenId>(100, 4)));
  rig.end(2);
}

}  // namespace
}  // namespace forerun
