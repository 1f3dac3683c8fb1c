// The conversion of items' rows to a Step: slots, boundaries, ancestor lists, and tasks for the
// rows that want something.
//
// Only one thread may use an object. It allocates only while vectors grow to the largest Step so
// far, except for the results themselves.
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
  // `vocab` is the number of ids in the role's embedding. `features` has the features of a trained
  // head's rows, or is null; it must outlive the object.
  StepBuilder(Role role, int32_t vocab, const FeatureRows* features)
      : role_(role), vocab_(vocab), features_(features) {}

  void clear();
  int32_t rows() const { return static_cast<int32_t>(step_.rows.size()); }
  int32_t context_tokens() const { return context_tokens_; }
  // Returns the load of the rows so far.
  StepLoad load() const {
    return {rows(), kv_tokens_, static_cast<int32_t>(step_.sequences.size()), attended_tokens_,
            through_view_};
  }
  bool empty() const { return step_.rows.empty(); }

  // Appends the next `count` rows of `item`, the next item in `sequence`'s queue, and gives them
  // slots. Reserves room for the results in `item`, where they must stay. A failure appends
  // nothing, and the sequence's KV keeps its rows; it may have more blocks, and its token counts
  // are undefined.
  //   Returns kResourceExhausted for missing KV blocks or a position at or past max_tokens;
  //   kInternal for unknown or repeated nodes, rows out of order, a token beyond the vocabulary, or
  //   prefix rows of the target through a view.
  Status add(RoleSequence& sequence, PendingItem& item, int32_t count);

  // The complete Step and its tasks, with all pointers set; valid until the next add or clear,
  // while the items exist.
  struct Built {
    const Step* step = nullptr;
    std::span<RowTask> tasks;
    std::span<RejectionTask> rejections;
  };
  Built finish();

 private:
  // References into vectors that still grow, as indices.
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

  // The sizes of a Step, to which rewind() returns if an item cannot be added.
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
  // Adds the last `count` tokens of the prefix, which run again.
  void add_last_tokens(const RoleSequence& sequence, int32_t count);
  Status add_row(RoleSequence& sequence, PendingItem& item, size_t row_idx);
  // Keeps the hidden states of the row, which is added next, if others may start from them.
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
  SeenKv seen_;            // KV that the current item's rows attend to
  int32_t first_row_ = 0;  // the first of these rows, in the Step
  int32_t observers_ = 0;  // the number of these rows, from the first, that choose
  Step step_;
  std::vector<RowTask> tasks_;
  std::vector<TaskOrigin> task_origins_;
  std::vector<RejectionTask> rejections_;
  std::vector<RejectionOrigin> rejection_origins_;
  std::vector<RejectionRow> rejection_rows_;
  std::vector<PathRange> rejection_paths_;
  std::vector<TokenId> path_tokens_;
  int32_t logits_rows_ = 0;
  int32_t context_tokens_ = 0;  // largest number of visible tokens of a row
  int64_t kv_tokens_ = 0;
  bool through_view_ = false;
  int64_t attended_tokens_ = 0;
};

}  // namespace forerun
