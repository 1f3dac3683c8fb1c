// What one role knows of one sequence, and the items on their way through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "kv/sequence_kv.h"
#include "sampling/logits_processor.h"
#include "sampling/sampler.h"
#include "sampling/token_counts.h"
#include "step/work.h"
#include "views/view_table.h"

namespace forerun {

// A draft's distribution at one row, on its way to the verification.
struct RowDistribution {
  NodeId node = kNoNode;
  int32_t position = 0;  // of the row
  std::shared_ptr<const DraftDistribution> distribution;
};

struct PendingItem {
  WorkItem item;
  // verify_by_rejection: what each row's children were drawn from, or null; as many as rows.
  std::vector<std::shared_ptr<const DraftDistribution>> drafts;

  int64_t submit_ns = 0;
  // Which of the executor's openings it belongs to: an id may have been closed and opened again
  // by the time its Step has run.
  uint64_t opening = 0;

  // How far it has come.
  bool edits_done = false;
  size_t rows_done = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;
};

// Items of one sequence that a role has still to run, mostly one: in place, without a list's nodes.
// References hold until the next push_back() or pop_front().
class ItemQueue {
 public:
  bool empty() const { return first_ == items_.size(); }
  size_t size() const { return items_.size() - first_; }
  PendingItem& front() { return items_[first_]; }
  std::span<const PendingItem> all() const { return std::span(items_).subspan(first_); }
  void push_back(PendingItem&& item) { items_.push_back(std::move(item)); }
  void pop_front() {
    if (++first_ < items_.size() && first_ < kMostPopped) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  static constexpr size_t kMostPopped = 8;
  std::vector<PendingItem> items_;
  size_t first_ = 0;  // those before it have been popped
};

struct FinishedItem {
  uint64_t opening = 0;  // PendingItem's
  // Of a result that waits for memory: how many sequences the role had closed when it found no
  // blocks. Where more have been closed since, it tries again by itself.
  uint64_t closings = 0;
  WorkResult result;
  std::vector<RowDistribution> distributions;  // of its kDraw rows
};

// What an item gives whose role has no model.
inline FinishedItem without_model(const WorkItem& item, uint64_t opening) {
  FinishedItem failed;
  failed.opening = opening;
  failed.result.sequence = item.sequence;
  failed.result.role = item.role;
  failed.result.tag = item.tag;
  failed.result.status =
      Status(StatusCode::kInternal,
             std::string("work for the ") + role_name(item.role) + ", which has no model");
  return failed;
}

// The KV that rows see: a block table, whose slots are the sequence's own less `skipped_tokens`
// where they lie behind what it leaves out.
struct SeenKv {
  const int32_t* block_table = nullptr;
  int32_t skipped_tokens = 0;
  // By whom a head is chosen now; by nobody: it is what it was. Not by rows that see all of it:
  // the head is for others, later.
  KvChoice choice = {};
  int32_t chosen_from = 0;             // among so many first tokens
  std::span<const int32_t> head = {};  // the blocks that it goes into
  // choice.by_index: those of the index, and how many tokens are in it.
  std::span<const int32_t> index = {};
  int32_t indexed_tokens = 0;
};

struct RoleSequence {
  // `head_dim`: the model's.
  RoleSequence(SequenceId sequence, const SequenceSpec& the_spec, BlockPool* pool,
               PrefixCache* cache, int32_t head_dim)
      : id(sequence),
        spec(the_spec),
        penalized(needs_history(the_spec.sampling)),
        kv(pool, the_spec.max_tokens, the_spec.share_prefix ? cache : nullptr),
        pool_(pool),
        head_dim_(head_dim) {}
  ~RoleSequence() { release_view(); }

  const SequenceId id;
  const SequenceSpec spec;
  const bool penalized;  // its sampler looks at the history
  SequenceKv kv;
  TokenCounts counts;    // of the prefix; kept only if `penalized`
  uint64_t arrival = 0;  // order of opening
  bool decodes = false;  // something has come of its rows: its prompt is read
  Status failed;         // not ok: every further item fails with it
  ItemQueue queue;

  // Rows of a prompt at least that are left of the item whose turn it is. More of them, of requests
  // that share the rest, would together make a Step last as long as a prompt.
  static constexpr size_t kPromptRows = 8;
  // Whether its next rows are a prompt's: prefix rows that want nothing, more than a draft's few
  // that catch up with the text.
  bool reads_prompt() const;
  // Takes blocks for the item's next `count` rows and for the view that they see or choose for.
  // kResourceExhausted where there are too few.
  Status reserve(const WorkItem& item, int32_t count);
  // What rows of the item see, once their blocks are reserved; from now on a head that is to be
  // chosen counts as chosen. Valid until the next call or change of the blocks.
  SeenKv see(const WorkItem& item);

  void count_token(TokenId token, int32_t position) {
    if (penalized) counts.add(token, position < spec.prompt_tokens);
  }

 private:
  void release_view();

  BlockPool* const pool_;
  const int32_t head_dim_;
  KvViewSpec view_spec_;  // of view_
  std::unique_ptr<KvView> view_;
  KvViewLayout layout_;         // as of reserve()
  std::vector<int32_t> head_;   // blocks of the view's own
  KvChosen chosen_;             // what they hold
  std::vector<int32_t> index_;  // blocks of its index
  int32_t indexed_tokens_ = 0;
  std::vector<int32_t> view_blocks_;
};

inline bool RoleSequence::reads_prompt() const {
  for (const PendingItem& pending : queue.all()) {
    const std::vector<WorkRow>& rows = pending.item.rows;
    if (rows.empty()) continue;
    if (rows.size() - pending.rows_done < kPromptRows) return false;
    const WorkRow& last = rows[pending.rows_done + kPromptRows - 1];
    const WorkRow& before = rows[pending.rows_done + kPromptRows - 2];
    return before.node == kNoNode && before.want == Want::kNothing && last.node == kNoNode;
  }
  return false;
}

}  // namespace forerun
