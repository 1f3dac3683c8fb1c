// Random work of several sequences against a plain model of what each of them holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "exec/exec_rig_test.h"
#include "step/hash_constraint_test.h"

namespace forerun {
namespace {

// The truth about one (role, sequence), kept as token lists; predicts every result.
class Mirror {
 public:
  // Sequences that share prefixes begin with the first `common` tokens of one text, long prompts in
  // one go.
  Mirror(SequenceId id, Role role, const SequenceSpec& spec, int32_t common)
      : id_(id), role_(role), spec_(spec), common_(common) {}

  WorkItem random_item(std::mt19937& rng, uint64_t tag) {
    WorkItem item;
    item.sequence = id_;
    item.role = role_;
    item.tag = tag;
    item.shared_noise = shared_noise_ = rng() % 2 == 0;
    if (!nodes_.empty() && rng() % 2 == 0) add_edits(rng, item);
    if (rng() % 8 == 0) return item;
    if (nodes_.empty() && (prefix_.empty() || rng() % 3 == 0)) {
      const auto rows = 1 + rng() % (spec_.share_prefix ? 200 : 40);
      for (size_t row = 0; row < rows && length() + 1 < spec_.max_tokens; ++row) {
        add_row(rng, item, kNoNode, kNoNode);
      }
    }
    const auto rows = rng() % 9;
    for (size_t row = 0; row < rows && length() + 20 < spec_.max_tokens; ++row) {
      auto parent = kNoNode;
      if (!nodes_.empty() && rng() % 5 != 0) {
        parent = std::next(nodes_.begin(), static_cast<ptrdiff_t>(rng() % nodes_.size()))->first;
      }
      add_row(rng, item, next_node_++, parent);
    }
    return item;
  }

  const std::map<uint64_t, std::vector<RowResult>>& expected() const { return expected_; }
  // Whether edits that have been submitted drop the node.
  bool is_dropped(NodeId node) const { return dropped_.contains(node); }

 private:
  struct Node {
    TokenId token;
    NodeId parent;
  };
  int32_t length() const { return static_cast<int32_t>(prefix_.size() + nodes_.size()); }

  std::vector<TokenId> history(NodeId node) const {
    std::vector<TokenId> path;
    for (; node != kNoNode; node = nodes_.at(node).parent) path.push_back(nodes_.at(node).token);
    std::vector<TokenId> all = prefix_;
    all.insert(all.end(), path.rbegin(), path.rend());
    return all;
  }

  void add_edits(std::mt19937& rng, WorkItem& item) {
    std::set<NodeId> gone;
    for (const auto& [node, value] : nodes_) gone.insert(node);
    if (rng() % 3 != 0) {
      auto at = std::next(nodes_.begin(), static_cast<ptrdiff_t>(rng() % nodes_.size()))->first;
      std::vector<NodeId> path;
      for (; at != kNoNode; at = nodes_.at(at).parent) path.insert(path.begin(), at);
      std::map<NodeId, Node> below;
      for (const auto& [node, value] : nodes_) {
        for (NodeId above = value.parent; above != kNoNode; above = nodes_.at(above).parent) {
          if (above != path.back()) continue;
          below[node] = {value.token, value.parent == path.back() ? kNoNode : value.parent};
          break;
        }
      }
      for (NodeId node : path) prefix_.push_back(nodes_.at(node).token);
      for (NodeId node : path) gone.erase(node);
      nodes_ = below;
      item.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = path});
    }
    Edit keep{.kind = Edit::Kind::kKeep, .nodes = {}};
    std::map<NodeId, Node> kept;
    for (const auto& [node, value] : nodes_) {
      if (rng() % 3 == 0 || (value.parent != kNoNode && !kept.contains(value.parent))) continue;
      kept[node] = value;
      keep.nodes.push_back(node);
    }
    nodes_ = kept;
    item.edits.push_back(keep);
    for (const NodeId node : keep.nodes) gone.erase(node);
    dropped_.insert(gone.begin(), gone.end());
  }

  void add_row(std::mt19937& rng, WorkItem& item, NodeId node, NodeId parent) {
    WorkRow row;
    row.token = static_cast<TokenId>(rng() % kVocab);
    if (node == kNoNode && static_cast<int32_t>(prefix_.size()) < common_) {
      row.token = static_cast<TokenId>(prefix_.size() * prefix_.size() % kVocab);
    }
    row.node = node;
    row.parent = parent;
    if (node == kNoNode) {
      row.position = static_cast<int32_t>(prefix_.size());
      prefix_.push_back(row.token);
    } else {
      row.position = static_cast<int32_t>(history(parent).size());
      nodes_[node] = {row.token, parent};
    }
    const Want wants[] = {Want::kNothing, Want::kSample, Want::kTopK, Want::kDraw};
    row.want = wants[spec_.share_prefix && node == kNoNode && rng() % 100 > 0 ? 0 : rng() % 4];
    row.count = static_cast<int32_t>(1 + rng() % 5);
    item.rows.push_back(row);
    if (row.want != Want::kNothing) predict(item.tag, row, history(node));
  }

  void predict(uint64_t tag, const WorkRow& row, const std::vector<TokenId>& tokens) {
    std::vector<float> logits(kVocab + 4);
    const auto vocab = static_cast<int32_t>(role_ == Role::kTarget ? kVocab + 4 : kVocab);
    fake_logits(fake_history(tokens, role_ == Role::kTarget ? 1 : 2), vocab, logits.data());
    logits.resize(kVocab);
    TokenCounts counts;
    for (size_t index = 0; index < tokens.size(); ++index) {
      counts.add(tokens[index], static_cast<int32_t>(index) < spec_.prompt_tokens);
    }
    RowTask task;
    RowResult result;
    DraftDistribution distribution;
    result.node = row.node;
    result.position = row.position;
    task.want = row.want;
    task.count = row.count;
    task.shared_noise = shared_noise_;
    task.context.params = &spec_.sampling;
    task.context.position = row.position + 1;
    task.context.prompt_tokens = spec_.prompt_tokens;
    task.context.history = &counts;
    TokenConstraint::State constrained = constrain(tokens);
    task.context.constraint = spec_.constraint.get();
    task.context.constrained = &constrained;
    task.result = &result;
    task.distribution = &distribution;
    SamplerScratch scratch;
    perform_task({.part = {{logits.data(), {1, kVocab}}}, .live_vocab = kVocab}, scratch, task);
    expected_[tag].push_back(result);
  }

  // After these tokens, of which those behind the prefix are drafted.
  TokenConstraint::State constrain(const std::vector<TokenId>& tokens) const {
    if (spec_.constraint == nullptr) return nullptr;
    TokenConstraint::State state = spec_.constraint->start();
    for (size_t index = 0; index < tokens.size() && state != nullptr; ++index) {
      const bool is_prompt =
          index < prefix_.size() && static_cast<int32_t>(index) < spec_.prompt_tokens;
      if (!is_prompt) state = spec_.constraint->after(state, tokens[index]);
    }
    return state;
  }

  SequenceId id_;
  Role role_;
  SequenceSpec spec_;
  int32_t common_;
  std::vector<TokenId> prefix_;
  std::map<NodeId, Node> nodes_;
  std::set<NodeId> dropped_;
  NodeId next_node_ = 0;
  bool shared_noise_ = true;  // of the item being made
  std::map<uint64_t, std::vector<RowResult>> expected_;
};

SequenceSpec random_spec(std::mt19937& rng) {
  SequenceSpec spec;
  spec.sampling.temperature = rng() % 3 == 0 ? 0.0f : 0.9f;
  spec.sampling.seed = rng();
  if (rng() % 2 == 0) {
    spec.sampling.repetition_penalty = 1.2f;
    spec.sampling.frequency_penalty = 0.3f;
  }
  if (rng() % 3 == 0) spec.sampling.logprobs = 2;
  if (rng() % 4 == 0) spec.sampling.logit_bias = {{7, 3.0f}, {kVocab - 1, -100.0f}};
  if (rng() % 3 == 0) spec.constraint = std::make_shared<HashConstraint>(rng());
  spec.prompt_tokens = static_cast<int32_t>(rng() % 30);
  spec.max_tokens = 400;
  return spec;
}

void expect_same(const WorkResult& result, const std::vector<RowResult>& expected) {
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  ASSERT_EQ(result.rows.size(), expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    EXPECT_EQ(result.rows[row].node, expected[row].node);
    EXPECT_EQ(result.rows[row].position, expected[row].position);
    EXPECT_EQ(result.rows[row].token, expected[row].token);
    EXPECT_EQ(result.rows[row].logprob, expected[row].logprob);
    ASSERT_EQ(result.rows[row].top.size(), expected[row].top.size());
    for (size_t rank = 0; rank < expected[row].top.size(); ++rank) {
      EXPECT_EQ(result.rows[row].top[rank].token, expected[row].top[rank].token);
      EXPECT_EQ(result.rows[row].top[rank].logprob, expected[row].top[rank].logprob);
    }
  }
}

struct Variant {
  bool threaded;
  int32_t row_budget;
  bool share = false;
  std::array<std::vector<int32_t>, kNumRoles> teams = {};  // threads of each device, a role
  int32_t device_parts = 0;
  int32_t stages = 1;  // of the target
};

// Stages that take their time, now one and now another.
std::function<void(int32_t)> delays(uint32_t seed) {
  auto steps = std::make_shared<std::atomic<uint64_t>>(seed);
  return [steps](int32_t stage) {
    const uint64_t drawn = fake_mix(++*steps, static_cast<uint64_t>(stage)) >> 32;
    if (drawn % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(drawn % 200));
  };
}

class Interleavings : public ::testing::TestWithParam<Variant> {};

// Several sequences, items of both roles in flight, closed at any time: every result must be what
// the sequence's own tokens give.
TEST_P(Interleavings, EveryResultFollowsFromItsOwnHistory) {
  int64_t reused = 0;
  int64_t summarized = 0;
  int64_t edited = 0;
  int64_t fetched = 0;
  int64_t dropped = 0;
  int64_t notices = 0;
  const uint32_t seeds = GetParam().stages > 1 ? 24 : 12;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 rng(seed);
    Rig rig({.threaded = GetParam().threaded,
             .row_budget = GetParam().row_budget,
             .teams = GetParam().teams,
             .device_parts = GetParam().device_parts,
             .stages = GetParam().stages,
             .in_stage = delays(seed),
             .on_step = {}});
    struct Live {
      SequenceId id;
      std::unique_ptr<Mirror> roles[kNumRoles];
      std::vector<uint64_t> awaited[kNumRoles];  // tags in the order of submission
      bool tells_entry = false;                  // its target items do
      std::set<uint64_t> asked;                  // tags of those of which no notice has come
      int items = 0;
    };
    std::vector<std::unique_ptr<Live>> live;
    SequenceId next_id = 100;
    uint64_t next_tag = 0;
    int64_t checked = 0;
    const auto open = [&] {
      auto sequence = std::make_unique<Live>();
      sequence->id = next_id++;
      sequence->tells_entry = GetParam().stages > 1 && rng() % 3 > 0;
      SequenceSpec spec = random_spec(rng);
      spec.share_prefix = GetParam().share && rng() % 8 != 0;
      const auto common = static_cast<int32_t>(GetParam().share ? rng() % 300 : 0);
      ASSERT_TRUE(rig.executor->open(sequence->id, spec).ok());
      for (int role_idx = 0; role_idx < kNumRoles; ++role_idx) {
        sequence->roles[role_idx] =
            std::make_unique<Mirror>(sequence->id, static_cast<Role>(role_idx), spec, common);
      }
      live.push_back(std::move(sequence));
    };
    const auto take = [&] {
      const auto result = rig.next();
      if (!result) return false;
      const auto owner = std::find_if(live.begin(), live.end(), [&](const auto& sequence) {
        return sequence->id == result->sequence;
      });
      EXPECT_NE(owner, live.end()) << "a result of a closed sequence";
      if (owner == live.end()) return true;
      const auto role = static_cast<size_t>(result->role);
      auto& awaited = (*owner)->awaited[role];
      if (result->entered) {
        EXPECT_TRUE(result->rows.empty() && (*owner)->asked.erase(result->tag) == 1);
        ++notices;
        return true;
      }
      EXPECT_FALSE(awaited.empty());
      if (awaited.empty()) return false;
      EXPECT_EQ(result->tag, awaited.front()) << "results of a (role, sequence) keep their order";
      awaited.erase(awaited.begin());
      const Mirror& mirror = *(*owner)->roles[role];
      const auto found = mirror.expected().find(result->tag);
      auto expected = found == mirror.expected().end() ? std::vector<RowResult>{} : found->second;
      // Rows of dropped nodes may be missing where the item allows it.
      if (role == 0 && (*owner)->tells_entry) {
        const size_t all = expected.size();
        std::erase_if(expected, [&](const RowResult& row) {
          return mirror.is_dropped(row.node) &&
                 std::none_of(result->rows.begin(), result->rows.end(),
                              [&](const RowResult& other) { return other.node == row.node; });
        });
        dropped += static_cast<int64_t>(all - expected.size());
        EXPECT_EQ(result->left_out, all > 0 && expected.empty());
      }
      expect_same(*result, expected);
      ++checked;
      reused += result->reused_rows;
      return true;
    };
    for (int index = 0; index < 4; ++index) open();
    for (int round = 0; round < 150; ++round) {
      const size_t pick = rng() % live.size();
      Live& sequence = *live[pick];
      if (++sequence.items > 40 || rng() % 40 == 0) {
        rig.executor->close(sequence.id);
        live.erase(live.begin() + static_cast<ptrdiff_t>(pick));
        open();
        continue;
      }
      const size_t role = rng() % kNumRoles;
      WorkItem item = sequence.roles[role]->random_item(rng, next_tag++);
      if (!item.rows.empty()) sequence.awaited[role].push_back(item.tag);
      item.tells_entry = role == 0 && sequence.tells_entry;
      if (item.tells_entry) sequence.asked.insert(item.tag);
      rig.executor->submit(std::move(item));
      if (rng() % 3 == 0) take();
      if (HasFatalFailure()) return;
    }
    while (take()) {
    }
    for (const auto& sequence : live) {
      EXPECT_TRUE(sequence->awaited[0].empty() && sequence->awaited[1].empty());
      rig.executor->close(sequence->id);
    }
    EXPECT_FALSE(rig.next().has_value());
    rig.wait_until_kv_is_free();
    EXPECT_GT(checked, GetParam().share ? 20 : 40);
    rig.executor.reset();
    EXPECT_EQ(rig.target_violations(), 0);
    EXPECT_EQ(rig.draft.violations, 0);
    EXPECT_LE(rig.target.largest_step, GetParam().row_budget);
    summarized += rig.target.summarized;
    edited += rig.target.edited;
    fetched += rig.target.fetched;
    if (HasFailure()) return;
  }
  EXPECT_EQ(reused > 1000, GetParam().share) << reused;
  const bool several_steps = GetParam().stages > 1 && GetParam().threaded;
  EXPECT_EQ(notices > 100, several_steps) << notices;
  EXPECT_EQ(dropped > 0, several_steps) << dropped;
  EXPECT_EQ(summarized > 100, GetParam().device_parts > 0) << summarized;
  EXPECT_EQ(edited > 50, GetParam().device_parts > 0) << edited;
  // Sums of parts that measure from origins of their own are not known.
  const bool in_parts =
      GetParam().device_parts > 1 || (GetParam().device_parts > 0 && !GetParam().teams[0].empty());
  EXPECT_EQ(fetched > 20, in_parts) << fetched;
}

INSTANTIATE_TEST_SUITE_P(
    All, Interleavings,
    ::testing::Values(Variant{false, 512}, Variant{false, 7}, Variant{false, 1}, Variant{true, 512},
                      Variant{true, 7}, Variant{false, 512, true}, Variant{false, 70, true},
                      Variant{true, 512, true}, Variant{false, 512, false, {{{1, 1}, {2, 1, 2}}}},
                      Variant{true, 7, true, {{{1, 1, 1, 1}, {2, 2}}}},
                      Variant{false, 512, false, {}, 1}, Variant{true, 70, true, {}, 2},
                      Variant{true, 512, false, {{{1, 2}, {2}}}, 1},
                      Variant{false, 512, false, {}, 0, 2}, Variant{false, 70, true, {}, 0, 5},
                      Variant{true, 512, false, {}, 0, 3}, Variant{true, 7, false, {}, 0, 2},
                      Variant{true, 512, true, {}, 0, 8}, Variant{true, 70, true, {}, 2, 4}));

}  // namespace
}  // namespace forerun
