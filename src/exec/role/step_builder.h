// Turns rows of work items into a Step: slots, boundaries, ancestor lists, and the tasks for the
// rows that want something.
//
// Used by one thread. Allocates nothing once the vectors have grown to the largest Step so far,
// except what the results themselves own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/role/feature_rows.h"
#include "exec/role/role_sequence.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "step/step.h"
#include "step/step_load.h"

namespace forerun {

class StepBuilder {
 public:
  // `vocab`: ids that the role's embedding has. `features`: of a trained head's rows, else null;
  // must outlive the object.
  StepBuilder(Role role, int32_t vocab, const FeatureRows* features)
      : role_(role), vocab_(vocab), features_(features) {}

  void clear();
  int32_t rows() const { return static_cast<int32_t>(step_.rows.size()); }
  int32_t context_tokens() const { return context_tokens_; }
  // The load of the rows so far.
  StepLoad load() const {
    return {rows(), kv_tokens_, static_cast<int32_t>(step_.sequences.size()), attended_tokens_};
  }
  bool empty() const { return step_.rows.empty(); }

  // Appends the next `count` rows of `item`, which is the next one of `sequence`'s queue, and gives
  // them slots. Reserves room for the results in `item`, where they must stay. On failure nothing
  // is appended and the sequence's KV keeps the rows that it had; it may have more blocks, and its
  // token counts are undefined.
  //   kResourceExhausted: no KV blocks, or a position at or past max_tokens;
  //   kInternal: unknown or repeated nodes, rows out of order, a token beyond the vocabulary,
  //   prefix rows of the target through a view.
  Status add(RoleSequence& sequence, PendingItem& item, int32_t count);

  // The Step and its tasks, complete and with all pointers set; valid until the next add or clear
  // and as long as the items are there.
  struct Built {
    const Step* step = nullptr;
    std::span<RowTask> tasks;
    std::span<RejectionTask> rejections;
  };
  Built finish();

 private:
  // Points into vectors that still grow, as indices.
  struct PathRange {
    size_t begin = 0;
    size_t length = 0;
  };
  struct TaskOrigin {
    PendingItem* item;
    std::vector<RowResult> WorkResult::*results;  // the list of the item's result
    size_t result_idx;
    PathRange path;
  };
  struct RejectionOrigin {
    PendingItem* item;
    size_t begin;  // index in rejection_rows_
    size_t end;
  };

  // The sizes of a Step so far, to which rewind() returns where an item cannot be added.
  struct Mark {
    size_t rows, sequences, selections, ancestors, taps, features, tasks, rejection_rows;
    int32_t logits_rows, context_tokens;
    int64_t kv_tokens, attended_tokens;
  };
  Mark mark() const;
  void rewind(const Mark& mark);
  // Adds the choice of a view's head, by the last tokens of the prefix or by the first of the next
  // `count` rows.
  void add_selection(const RoleSequence& sequence, int32_t count);
  // Runs the last `count` tokens of the prefix once more.
  void add_last_tokens(const RoleSequence& sequence, int32_t count);
  Status add_row(RoleSequence& sequence, PendingItem& item, size_t row_idx);
  // Keeps the hidden states of the row, which is added next, where others may start from them.
  void add_tap(RoleSequence& sequence, const WorkRow& row);
  Status add_prefix_row(RoleSequence& sequence, const WorkRow& row, StepRow& out);
  Status add_tree_row(RoleSequence& sequence, const WorkRow& row, StepRow& out, int32_t* tree_idx);
  PathRange add_path(const RoleSequence& sequence, int32_t tree_idx);
  RowContext context_of(const RoleSequence& sequence, const WorkRow& row) const;
  Status mask_error(const RoleSequence& sequence, const PendingItem& item, size_t row_idx) const;
  void add_task(RoleSequence& sequence, PendingItem& item, const WorkRow& row, PathRange path);
  // Adds a task that scores the prompt's next token.
  Status add_score(const RoleSequence& sequence, PendingItem& item, size_t row_idx);
  Status add_rejection_row(RoleSequence& sequence, PendingItem& item, size_t row_idx,
                           PathRange path);

  const Role role_;
  const int32_t vocab_;
  const FeatureRows* const features_;
  SeenKv seen_;            // what the rows of the item being added see
  int32_t first_row_ = 0;  // the first of these rows, in the Step
  int32_t observers_ = 0;  // how many of these rows, the first ones, choose
  Step step_;
  std::vector<RowTask> tasks_;
  std::vector<TaskOrigin> task_origins_;
  std::vector<RejectionTask> rejections_;
  std::vector<RejectionOrigin> rejection_origins_;
  std::vector<RejectionRow> rejection_rows_;
  std::vector<PathRange> rejection_paths_;
  std::vector<TokenId> path_tokens_;
  int32_t logits_rows_ = 0;
  int32_t context_tokens_ = 0;  // what the row that sees most sees
  int64_t kv_tokens_ = 0;
  int64_t attended_tokens_ = 0;
};

}  // namespace forerun
