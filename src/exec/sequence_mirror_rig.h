// A reference model of the state and answers of a (role, sequence) of an executor, kept as lists of
// tokens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "exec/exec_rig.h"
#include "step/hash_constraint_rig.h"

namespace forerun {

// The expected state of one (role, sequence), kept as token lists; predicts every result.
class SequenceMirror {
 public:
  // Sequences that share prefixes begin with the first `common` tokens of one list; long prompts
  // come in one item.
  SequenceMirror(SequenceId id, Role role, const SequenceSpec& spec, int32_t common)
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
  // Returns whether submitted edits drop the node.
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
    task.distribution = &distribution;
    SamplerScratch scratch;
    EXPECT_TRUE(perform_task({.part = {{logits.data(), {1, kVocab}}}, .live_vocab = kVocab},
                             scratch, task, result)
                    .ok());
    expected_[tag].push_back(result);
  }

  // Returns the constraint's state after these tokens; the ones after the prefix are drafted.
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
  bool shared_noise_ = true;  // whether the current item shares its noise
  std::map<uint64_t, std::vector<RowResult>> expected_;
};

}  // namespace forerun
