// A role's state of one sequence: its KV, the items that are still to run, and the view of their
// rows.
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

// The KV that rows attend to: a block table. Behind the tokens that the table leaves out, its slots
// are the sequence's own slots less `skipped_tokens`.
struct SeenKv {
  const int32_t* block_table = nullptr;
  int32_t skipped_tokens = 0;
  // The rows that choose a head now; kNobody keeps the head. Rows that attend to everything choose
  // one for later rows (WorkItem::chooses_for).
  KvChoice choice = {};
  int32_t chosen_from = 0;             // the choice is among this many first tokens
  std::span<const int32_t> head = {};  // the destination blocks of the head's KV
  // With choice.by_index: the index's blocks, and the number of tokens in it.
  std::span<const int32_t> index = {};
  int32_t indexed_tokens = 0;
};

struct RoleSequence {
  // `head_dim` is the model's. `tap_places` is null if the model keeps no hidden states.
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
  const bool looks_back;  // whether the sampler reads the history
  SequenceKv kv;
  RowTaps taps;  // hidden states of its rows
  // The counts of the prefix's tokens, kept only if `looks_back`.
  TokenCounts counts;
  // The constraint's state after the prefix's output tokens.
  TokenConstraint::State constrained;
  uint64_t arrival = 0;  // number in the order of opening
  bool decodes = false;  // rows have had results: its prompt has been read
  Status failed;         // if not ok, every further item fails with it
  ItemQueue queue;
  int32_t steps_under_way = 0;    // Steps in flight with rows of the sequence
  int32_t samples_under_way = 0;  // those among them in which its rows want something
  // True if its items are submitted without waiting for earlier results (WorkItem::tells_entry):
  // the sequence has rows for every Step, and fills a pipeline alone.
  bool follows = false;
  bool is_queued = false;   // ready for a Step, or waiting for memory or for a mask
  int32_t passed_over = 0;  // consecutive Steps without room for its next item
  bool closed = false;      // kept only until its last Step has retired
  // The state whose mask the next rows wait for; null if they wait for none.
  TokenConstraint::State late;
  // The constraint's states at nodes with KV and at the rows of the latest item; the next item
  // continues from one of them.
  struct KnownState {
    NodeId node = kNoNode;
    uint64_t item = 0;
    TokenConstraint::State state;
  };
  std::vector<KnownState> known_states;
  uint64_t constrained_items = 0;  // number of items with a constraint so far

  // Returns whether the next item may run now. A sampler that reads the history uses the prefix's
  // counts while its Step is in flight, so no token may be counted meanwhile. After a failure
  // nothing runs while Steps are in flight.
  bool may_run() const {
    if (!queue.has_next()) return false;
    return steps_under_way == 0 || (failed.ok() && (!looks_back || samples_under_way == 0));
  }

  // An item with at least this many prompt rows left counts as a prompt. With a higher bound, short
  // remainders of many requests with shared prefixes would together make a Step last as long as a
  // prompt.
  static constexpr size_t kPromptRows = 8;
  // Returns whether the next rows belong to a prompt: prefix rows that want nothing, and more of
  // them than a draft needs to catch up.
  bool reads_prompt() const;
  // Returns whether the row's logits score the prompt's next token.
  bool scores(const WorkRow& row) const {
    return spec.sampling.prompt_logprobs >= 0 && row.node == kNoNode &&
           row.position + 1 < spec.prompt_tokens;
  }
  // Takes blocks for the item's next `count` rows and for the view that they see or choose for.
  // Returns kResourceExhausted if there are too few. If a draft model reads a view in place, first
  // frees the blocks that the view leaves out. Later items only attend to the remaining blocks,
  // whatever they ask for: a draft's guesses may get worse, but the output does not depend on them.
  Status reserve(const WorkItem& item, int32_t count);
  // Returns the KV that the item's rows attend to, once their blocks are reserved. A head that
  // these rows choose counts as chosen from now on. Valid until the next call or change of the
  // blocks.
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
  // Sets layout_ for the view that the item sees or chooses for, behind the present prefix. Frees
  // blocks that a draft model will not attend to again.
  void take_layout(const WorkItem& item);

  BlockPool* const pool_;
  const int32_t head_dim_;
  KvViewSpec view_spec_;  // the spec of view_
  std::unique_ptr<KvView> view_;
  KvViewLayout layout_;         // the layout at the last reserve()
  std::vector<int32_t> head_;   // blocks that belong to the view
  KvChosen chosen_;             // the choice in the blocks of head_
  std::vector<int32_t> index_;  // blocks of its index
  int32_t indexed_tokens_ = 0;
  std::vector<int32_t> view_blocks_;
};

// Returns the role and sequence, for messages: "target, sequence 7".
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
