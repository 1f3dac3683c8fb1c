// What one role knows of one sequence: its KV, the items that are still to be run, and the view
// that they see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/row_taps.h"
#include "forerun/status.h"
#include "kv/sequence_kv.h"
#include "sampling/logits_processor.h"
#include "sampling/token_counts.h"
#include "step/work.h"
#include "views/view_table.h"

namespace forerun {

// The KV that rows see: a block table. Behind the tokens that the table leaves out, its slots are
// the sequence's own slots less `skipped_tokens`.
struct SeenKv {
  const int32_t* block_table = nullptr;
  int32_t skipped_tokens = 0;
  // Which rows choose a head now; kNobody: the head stays as it is. Rows that see everything choose
  // one for later rows (WorkItem::chooses_for).
  KvChoice choice = {};
  int32_t chosen_from = 0;             // the choice is among the first so many tokens
  std::span<const int32_t> head = {};  // the blocks that the head's KV is gathered into
  // Where choice.by_index: the index's blocks, and how many tokens are in it.
  std::span<const int32_t> index = {};
  int32_t indexed_tokens = 0;
};

struct RoleSequence {
  // `head_dim`: the model's. `tap_places`: null where the model keeps no hidden states.
  RoleSequence(SequenceId sequence, const SequenceSpec& sequence_spec, BlockPool* pool,
               PrefixCache* cache, int32_t head_dim, TapPlaces* tap_places = nullptr)
      : id(sequence),
        spec(sequence_spec),
        looks_back(needs_history(sequence_spec.sampling) || sequence_spec.constraint != nullptr),
        kv(pool, sequence_spec.max_tokens, sequence_spec.share_prefix ? cache : nullptr,
           sequence_spec.prefix_salt),
        taps(tap_places),
        constrained(sequence_spec.constraint == nullptr ? nullptr
                                                        : sequence_spec.constraint->start()),
        pool_(pool),
        head_dim_(head_dim) {}
  ~RoleSequence() { release_view(); }

  const SequenceId id;
  const SequenceSpec spec;
  const bool looks_back;  // its sampler looks at the history
  SequenceKv kv;
  RowTaps taps;  // hidden states of its rows
  // Kept only if `looks_back`: the counts of the prefix's tokens, and the constraint's state after
  // those of them that are output.
  TokenCounts counts;
  TokenConstraint::State constrained;
  uint64_t arrival = 0;  // order of opening
  bool decodes = false;  // rows of it have had results: its prompt has been read
  Status failed;         // not ok: every further item fails with it
  ItemQueue queue;
  int32_t steps_under_way = 0;    // Steps that have rows of the sequence
  int32_t samples_under_way = 0;  // those among them in which its rows want something
  // Its items are submitted without waiting for earlier results (WorkItem::tells_entry): the
  // sequence has rows for every Step, and fills a pipeline by itself.
  bool follows = false;
  bool is_queued = false;   // ready for a Step, or waiting for memory or for a mask
  int32_t passed_over = 0;  // Steps in a row that had no room for its next item
  bool closed = false;      // closed, and kept only until its last Step has retired
  // The state whose mask the next rows wait for; null: they wait for none.
  TokenConstraint::State late;
  // The constraint's states at nodes that have KV and at the rows of the latest item; the next item
  // continues from one of them.
  struct KnownState {
    NodeId node = kNoNode;
    uint64_t item = 0;
    TokenConstraint::State state;
  };
  std::vector<KnownState> known_states;
  uint64_t constrained_items = 0;  // items with a constraint so far

  // Whether the next item may be run now. A sampler that looks at the history reads the counts of
  // the prefix while its Step is under way, so no token may be counted meanwhile. After a failure
  // nothing more is run while Steps are under way.
  bool may_run() const {
    if (!queue.has_next()) return false;
    return steps_under_way == 0 || (failed.ok() && (!looks_back || samples_under_way == 0));
  }

  // An item with at least this many prompt rows left counts as a prompt. Were the bound higher,
  // short remainders of many requests that share prefixes would together make a Step last as long
  // as a prompt.
  static constexpr size_t kPromptRows = 8;
  // Whether the next rows are a prompt's: prefix rows that want nothing, and more of them than the
  // few with which a draft catches up with the text.
  bool reads_prompt() const;
  // Whether the row's logits are to score the prompt's next token.
  bool scores(const WorkRow& row) const {
    return spec.sampling.prompt_logprobs >= 0 && row.node == kNoNode &&
           row.position + 1 < spec.prompt_tokens;
  }
  // Takes blocks for the item's next `count` rows and for the view that they see or choose for.
  // kResourceExhausted where there are too few. Where a draft model reads a view in place, the
  // blocks that the view leaves out are given back first. Later items see only the blocks that are
  // left, whatever they ask for: a draft's guesses may become worse, the text does not depend on
  // them.
  Status reserve(const WorkItem& item, int32_t count);
  // What the item's rows see, once their blocks are reserved. A head that is to be chosen counts as
  // chosen from now on. Valid until the next call or change of the blocks.
  SeenKv see(const WorkItem& item);

  void count_token(TokenId token, int32_t position) {
    if (!looks_back) return;
    const bool is_prompt = position < spec.prompt_tokens;
    counts.add(token, is_prompt);
    if (is_prompt || constrained == nullptr) return;
    constrained = spec.constraint->after(constrained, token);
  }

 private:
  void release_view();
  // Sets layout_ for the view that the item sees or chooses for, behind the present prefix. Gives
  // back blocks that a draft model will not see again.
  void take_layout(const WorkItem& item);

  BlockPool* const pool_;
  const int32_t head_dim_;
  KvViewSpec view_spec_;  // what view_ was made from
  std::unique_ptr<KvView> view_;
  KvViewLayout layout_;         // the layout at the last reserve()
  std::vector<int32_t> head_;   // blocks of the view's own
  KvChosen chosen_;             // what the blocks of head_ hold
  std::vector<int32_t> index_;  // blocks of its index
  int32_t indexed_tokens_ = 0;
  std::vector<int32_t> view_blocks_;
};

// The role and sequence, for messages: "target, sequence 7".
inline std::string describe(Role role, const RoleSequence& sequence) {
  return std::string(role_name(role)) + ", sequence " + std::to_string(sequence.id);
}

inline bool RoleSequence::reads_prompt() const {
  for (const std::unique_ptr<PendingItem>& pending : queue.waiting()) {
    const std::vector<WorkRow>& rows = pending->item.rows;
    if (rows.empty()) continue;
    if (rows.size() - pending->rows_done < kPromptRows) return false;
    const WorkRow& last = rows[pending->rows_done + kPromptRows - 1];
    const WorkRow& before = rows[pending->rows_done + kPromptRows - 2];
    return before.node == kNoNode && before.want == Want::kNothing && last.node == kNoNode;
  }
  return false;
}

}  // namespace forerun
