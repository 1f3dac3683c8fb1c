// Simulates the work items of one sequence strictly, without models, tensors and Steps. It tracks
// the KV of each role, interprets work items exactly as step/work.h defines them, and records every
// violation: a row or edit that refers to a node without KV, a row computed twice, a position out
// of order or past max_tokens.
//
// A token is a hash of the history that a row really attends to, so a strategy that leaves a wrong
// KV cache also emits wrong tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulation/acceptance_model.h"
#include "step/cost_table.h"
#include "step/work.h"

namespace forerun {

class StrictExecutor {
 public:
  // Options for tests of strategies; other callers set only `max_tokens` and `sequence`.
  struct Options {
    int32_t max_tokens = 0;
    SequenceId sequence = 1;
    bool report_silent_items = true;  // items whose rows want no answer give a result too
    bool allow_twins = false;         // equal histories may be run twice (rule `rejection`)
    bool allow_dropped =
        false;  // histories that were dropped may be run again (after a change of strategy)
    // The draft may run histories again that it had dropped: a guess that a more expensive draft
    // rejected may still turn out right.
    bool allow_dropped_guesses = false;
    // Skips optional rows (WorkRow::chance) below a random chance in each item, and half of the
    // optional items (WorkItem::gain). The value is the seed of the random numbers.
    std::optional<uint64_t> leave_out = std::nullopt;
    // Number of stages that target items pass if they report their entry. The result of an item
    // arrives once other items have entered, without rows of nodes that were dropped meanwhile. 0:
    // no stages.
    int32_t stages = 0;
  };
  StrictExecutor(AcceptanceModel models, Options options)
      : models_(std::move(models)), options_(options) {}

  void submit(WorkItem item) { queue_[static_cast<size_t>(item.role)].push_back(std::move(item)); }
  bool idle() const { return !has_work(Role::kTarget) && !has_work(Role::kDraft); }
  bool has_work(Role role) const {
    return !queue_[static_cast<size_t>(role)].empty() ||
           (role == Role::kTarget && !under_way_.empty());
  }

  // Runs the next item of a role and returns its result, if it has one.
  std::optional<WorkResult> run(Role role) {
    auto& queue = queue_[static_cast<size_t>(role)];
    if (role == Role::kTarget && options_.stages > 0) return run_stages();
    WorkItem item = std::move(queue.front());
    queue.pop_front();
    return run_item(std::move(item));
  }

  // Returns the number of items that are still in the stages.
  int32_t under_way() const { return static_cast<int32_t>(under_way_.size()); }

  // Returns the virtual seconds spent so far at these costs, prefill excluded.
  double seconds(const CostTable& costs) const {
    double sum = 0.0;
    for (const auto& [role, rows] : steps_) sum += costs.at(role, rows);
    return sum;
  }
  const std::vector<std::pair<Role, int32_t>>& steps() const { return steps_; }

  const std::vector<std::string>& breaches() const { return breaches_; }
  const std::vector<TokenId>& prefix(Role role) const { return kv(role).tokens; }
  int32_t tree_region(Role role) const { return static_cast<int32_t>(kv(role).nodes.size()); }

  static uint64_t hash_of(const std::vector<TokenId>& tokens) {
    uint64_t hash = 0;
    for (TokenId token : tokens) hash = mix_hash(hash, static_cast<uint64_t>(token));
    return hash;
  }
  const AcceptanceModel& models() const { return models_; }

 private:
  struct Node {
    TokenId token = 0;
    int32_t position = 0;
    NodeId parent = kNoNode;  // kNoNode: the end of the prefix
    uint64_t history = 0;
    bool sparse = false;  // computed through a view
  };
  struct Kv {
    std::vector<TokenId> tokens;  // the prefix
    uint64_t history = 0;         // its hash
    std::map<NodeId, Node> nodes;
    std::set<NodeId> ever;
    std::set<NodeId> committed;
    std::set<uint64_t> ever_run;  // hashes of histories
  };

  const Kv& kv(Role role) const { return kv_[static_cast<size_t>(role)]; }

  void breach(const WorkItem& item, const std::string& what) {
    breaches_.push_back(std::string(role_name(item.role)) + " item " + std::to_string(item.tag) +
                        ": " + what);
  }

  void commit(Kv& kv, const WorkItem& item, const std::vector<NodeId>& path) {
    if (path.empty()) breach(item, "commits nothing");
    for (NodeId id : path) {
      const auto found = kv.nodes.find(id);
      if (found == kv.nodes.end()) return breach(item, "commits a node without KV");
      if (found->second.sparse && item.role == Role::kTarget) {
        breach(item, "commits a node that was run through a view");
      }
      if (found->second.parent != kNoNode) return breach(item, "commits a broken path");
      if (found->second.position != static_cast<int32_t>(kv.tokens.size())) {
        return breach(item, "commits at the wrong position");
      }
      kv.tokens.push_back(found->second.token);
      kv.history = found->second.history;
      kv.committed.insert(id);
      kv.nodes.erase(found);
      // Children of the kept node now continue the prefix; all other nodes must be dropped.
      for (auto& [other, node] : kv.nodes) {
        if (node.parent == id) {
          node.parent = kNoNode;
        } else if (node.parent == kNoNode) {
          node.parent = id;  // dangling: no node, and not the end of the prefix
        }
      }
    }
  }

  void keep(Kv& kv, const WorkItem& item, const std::vector<NodeId>& nodes) {
    std::map<NodeId, Node> kept;
    for (NodeId id : nodes) {
      const auto found = kv.nodes.find(id);
      if (found == kv.nodes.end()) {
        breach(item, "keeps a node without KV");
        continue;
      }
      const NodeId parent = found->second.parent;
      if (parent != kNoNode && !kept.contains(parent)) breach(item, "keeps a child before parent");
      kept[id] = found->second;
    }
    if (options_.allow_dropped || (options_.allow_dropped_guesses && item.role == Role::kDraft)) {
      for (const auto& [id, node] : kv.nodes) {
        if (!kept.contains(id)) kv.ever_run.erase(node.history);
      }
    }
    kv.nodes = std::move(kept);
  }

  // Adds a row's KV and returns the hash of the history that the row sees.
  uint64_t run_row(Kv& kv, const WorkItem& item, const WorkRow& row, bool tree_rows_before) {
    if (row.position >= options_.max_tokens) breach(item, "row past max_tokens");
    uint64_t history = kv.history;
    // The target runs rows through a view first, and runs them again to verify them.
    const bool is_draft = item.view.kind != nullptr && item.role == Role::kTarget;
    if (row.node == kNoNode) {
      if (is_draft) breach(item, "prefix row through a view");
      if (!kv.nodes.empty() || tree_rows_before) breach(item, "prefix row over a tree region");
      if (row.position != static_cast<int32_t>(kv.tokens.size()))
        breach(item, "prefix row misplaced");
      history = mix_hash(history, static_cast<uint64_t>(row.token));
      kv.tokens.push_back(row.token);
      kv.history = history;
    } else {
      auto position = static_cast<int32_t>(kv.tokens.size());
      if (row.parent != kNoNode) {
        const auto parent = kv.nodes.find(row.parent);
        if (parent == kv.nodes.end()) {
          breach(item, "row continues a node without KV");
        } else {
          history = parent->second.history;
          position = parent->second.position + 1;
        }
      }
      if (row.position != position) breach(item, "tree row misplaced");
      if (!is_draft && !kv.ever.insert(row.node).second) breach(item, "node run twice");
      history = mix_hash(history, static_cast<uint64_t>(row.token));
      kv.nodes[row.node] = {row.token, row.position, row.parent, history,
                            item.view.kind != nullptr};
    }
    if (!is_draft && !kv.ever_run.insert(history).second && !options_.allow_twins) {
      breach(item, "the same history run twice");
    }
    return history;
  }

  RowResult result_of(const WorkItem& item, const WorkRow& row, uint64_t history) const {
    RowResult result;
    result.node = row.node;
    result.position = row.position;
    if (row.want == Want::kSample) {
      result.token = models_.target_token(history);
      result.logprob = -static_cast<float>(AcceptanceModel::uniform(history));
    } else if (row.want == Want::kTopK && item.role == Role::kTarget && item.view.kind == nullptr) {
      result.top = target_top(history, row);
    } else if (row.want == Want::kTopK) {
      // The target with a view and a draft model err at different positions.
      const uint64_t drafter = item.role == Role::kTarget ? 1 : 0;
      result.top = models_.draft_top(history, row.count, row.position, drafter);
    } else {
      // Candidates of rule `rejection` may repeat: the second one sometimes equals the first.
      result.top = models_.draft_top(history, row.count, row.position);
      if (result.top.size() > 1 && history % 3 == 0) result.top[1] = result.top[0];
    }
    return result;
  }

  // Returns the target's own token first, then the draft's guesses, which together are less likely.
  std::vector<Candidate> target_top(uint64_t history, const WorkRow& row) const {
    constexpr float kOwn = 0.6f;
    std::vector<Candidate> top = {{models_.target_token(history), std::log(kOwn)}};
    for (const Candidate& guess : models_.draft_top(history, row.count - 1, row.position)) {
      if (guess.token == top.front().token) continue;
      top.push_back({guess.token, guess.logprob + std::log(1.0f - kOwn)});
    }
    return top;
  }

  void verify_by_rejection(const WorkItem& item, const Kv& kv, WorkResult& result) const {
    NodeId at = item.rows.front().node;
    while (true) {
      result.bonus = models_.target_token(kv.nodes.at(at).history);
      const auto child = std::find_if(item.rows.begin(), item.rows.end(), [&](const WorkRow& row) {
        return row.parent == at && row.token == result.bonus;
      });
      if (child == item.rows.end()) return;
      at = child->node;
      result.accepted.push_back(at);
    }
  }

  void leave_out(WorkItem& item) const {
    const uint64_t draw = mix_hash(*options_.leave_out, item.tag);
    // Skips all of them, one time in six.
    const float least = 1e-3f * static_cast<float>(draw % 1200);
    const auto first = std::stable_partition(
        item.rows.begin(), item.rows.end(),
        [least](const WorkRow& row) { return row.chance >= std::min(least, 1.0f); });
    item.rows.erase(first, item.rows.end());
  }

  // Either lets the next item enter the stages or the oldest item leave them.
  std::optional<WorkResult> run_stages() {
    auto& queue = queue_[static_cast<size_t>(Role::kTarget)];
    const bool full = static_cast<int32_t>(under_way_.size()) >= options_.stages;
    const bool enters =
        !queue.empty() && (under_way_.empty() || (!full && mix_hash(++turns_, 5) % 4 != 0));
    if (!enters) {
      WorkResult result = std::move(under_way_.front());
      under_way_.pop_front();
      const Kv& kv = kv_[static_cast<size_t>(Role::kTarget)];
      const size_t rows = result.rows.size();
      // Half of the rows with dropped nodes had been computed before they were dropped.
      std::erase_if(result.rows, [&](const RowResult& row) {
        return row.node != kNoNode && !kv.nodes.contains(row.node) &&
               !kv.committed.contains(row.node) &&
               mix_hash(static_cast<uint64_t>(row.node), 9) % 2 == 0;
      });
      result.left_out = rows > 0 && result.rows.empty();
      return result;
    }
    WorkItem item = std::move(queue.front());
    queue.pop_front();
    const bool tells = item.tells_entry;
    WorkResult notice;
    notice.sequence = item.sequence;
    notice.role = item.role;
    notice.tag = item.tag;
    notice.entered = true;
    auto result = run_item(std::move(item));
    if (!result) return std::nullopt;
    under_way_.push_back(std::move(*result));
    return tells ? std::optional(std::move(notice)) : std::nullopt;
  }

  std::optional<WorkResult> run_item(WorkItem item) {
    if (options_.leave_out) leave_out(item);
    if (item.sequence != options_.sequence) breach(item, "of another sequence");
    Kv& kv = kv_[static_cast<size_t>(item.role)];
    for (const Edit& edit : item.edits) {
      edit.kind == Edit::Kind::kCommit ? commit(kv, item, edit.nodes) : keep(kv, item, edit.nodes);
    }
    for (const auto& [id, node] : kv.nodes) {
      if (node.parent != kNoNode && !kv.nodes.contains(node.parent)) {
        breach(item, "its edits leave a node without its parent");
      }
    }
    if (item.rows.empty()) return std::nullopt;
    if (std::isfinite(item.gain) && item.role != Role::kDraft) breach(item, "need not be run");
    const bool may_be_left_out = options_.leave_out && std::isfinite(item.gain);
    if (may_be_left_out && mix_hash(*options_.leave_out + 1, item.tag) % 2 == 0) {
      WorkResult result;
      result.sequence = item.sequence;
      result.role = item.role;
      result.tag = item.tag;
      result.left_out = true;
      return result;
    }
    if (prefilled_[static_cast<size_t>(item.role)]) {
      steps_.push_back({item.role, static_cast<int32_t>(item.rows.size())});
    }
    prefilled_[static_cast<size_t>(item.role)] = true;
    WorkResult result;
    result.sequence = item.sequence;
    result.role = item.role;
    result.tag = item.tag;
    bool tree_rows = false;
    for (const WorkRow& row : item.rows) {
      const uint64_t history = run_row(kv, item, row, tree_rows);
      tree_rows |= row.node != kNoNode;
      if (row.want != Want::kNothing) result.rows.push_back(result_of(item, row, history));
    }
    if (item.verify_by_rejection) verify_by_rejection(item, kv, result);
    const bool silent = result.rows.empty() && !item.verify_by_rejection;
    if (silent && !options_.report_silent_items) return std::nullopt;
    return result;
  }

  AcceptanceModel models_;
  Options options_;
  std::deque<WorkItem> queue_[kNumRoles];
  std::deque<WorkResult> under_way_;  // results that are still in the target's stages
  uint64_t turns_ = 0;
  Kv kv_[kNumRoles];
  bool prefilled_[kNumRoles] = {false, false};
  std::vector<std::pair<Role, int32_t>> steps_;
  std::vector<std::string> breaches_;
};

}  // namespace forerun
