#include "exec/role/step_builder.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"

namespace forerun {
namespace {

Status internal(std::string message) { return Status(StatusCode::kInternal, std::move(message)); }

}  // namespace

void StepBuilder::clear() {
  step_.clear();
  tasks_.clear();
  task_origins_.clear();
  rejections_.clear();
  rejection_origins_.clear();
  rejection_rows_.clear();
  rejection_paths_.clear();
  path_tokens_.clear();
  logits_rows_ = 0;
  context_tokens_ = 0;
  kv_tokens_ = 0;
  attended_tokens_ = 0;
  through_view_ = false;
}

StepBuilder::Mark StepBuilder::mark() const {
  return {.rows = step_.rows.size(),
          .sequences = step_.sequences.size(),
          .selections = step_.selections.size(),
          .ancestors = step_.ancestors.size(),
          .taps = step_.taps.size(),
          .features = step_.features.size(),
          .tasks = tasks_.size(),
          .rejection_rows = rejection_rows_.size(),
          .logits_rows = logits_rows_,
          .context_tokens = context_tokens_,
          .kv_tokens = kv_tokens_,
          .attended_tokens = attended_tokens_};
}

void StepBuilder::rewind(const Mark& mark) {
  step_.rows.resize(mark.rows);
  step_.sequences.resize(mark.sequences);
  step_.selections.resize(mark.selections);
  step_.ancestors.resize(mark.ancestors);
  step_.taps.resize(mark.taps);
  step_.features.resize(mark.features);
  tasks_.resize(mark.tasks);
  task_origins_.resize(mark.tasks);
  rejection_rows_.resize(mark.rejection_rows);
  rejection_paths_.resize(mark.rejection_rows);
  logits_rows_ = mark.logits_rows;
  context_tokens_ = mark.context_tokens;
  kv_tokens_ = mark.kv_tokens;
  attended_tokens_ = mark.attended_tokens;
}

Status StepBuilder::add(RoleSequence& sequence, PendingItem& item, int32_t count) {
  FORERUN_RETURN_IF_ERROR(sequence.reserve(item.item, count));
  const Mark before = mark();
  const int32_t prefix_length = sequence.kv.prefix_length();
  const auto tree_size = static_cast<int32_t>(sequence.kv.tree_rows().size());
  const size_t results = item.result.rows.size();
  const size_t scores = item.result.scores.size();
  const size_t first = item.rows_done;
  const size_t last = first + static_cast<size_t>(count);
  // Reserves all results at once, since tasks of earlier rows point to them while further rows are
  // added.
  if (results == 0) {
    item.result.rows.reserve(static_cast<size_t>(
        std::count_if(item.item.rows.begin(), item.item.rows.end(),
                      [](const WorkRow& row) { return row.want != Want::kNothing; })));
  }
  if (scores == 0 && sequence.scores(item.item.rows[first])) {
    item.result.scores.reserve(item.item.rows.size());
  }

  seen_ = sequence.see(item.item);
  observers_ = 0;
  if (seen_.choice.by != KvObservers::kNobody) add_selection(sequence, count);
  first_row_ = rows();
  for (size_t row_idx = first; row_idx < last; ++row_idx) {
    const Status status = add_row(sequence, item, row_idx);
    if (status.ok()) continue;
    rewind(before);
    sequence.kv.truncate(prefix_length, tree_size);
    if (sequence.taps.keeps()) {
      sequence.taps.forget_from(sequence.kv.end_position());
      sequence.taps.keep_nodes([&](NodeId node) { return sequence.kv.find(node) >= 0; });
    }
    item.result.rows.resize(results);
    item.result.scores.resize(scores);
    return status;
  }
  if (rejection_rows_.size() > before.rejection_rows) {
    rejection_origins_.push_back({&item, before.rejection_rows, rejection_rows_.size()});
  }
  int32_t context = 0;
  for (auto row = static_cast<size_t>(first_row_); row < step_.rows.size(); ++row) {
    context = std::max(context, step_.rows[row].visible);
    through_view_ |= step_.rows[row].visible <= step_.rows[row].position;
  }
  kv_tokens_ += context;
  step_.sequences.push_back({seen_.block_table});
  if (features_ != nullptr) features_->forget_used(sequence);
  item.rows_done = last;
  return {};
}

void StepBuilder::add_selection(const RoleSequence& sequence, int32_t count) {
  const int32_t end = sequence.kv.prefix_length();
  const bool by_own_rows = seen_.choice.by == KvObservers::kOwnRows;
  const int32_t observers =
      std::min(seen_.choice.observers, by_own_rows ? count : end - seen_.chosen_from);
  step_.selections.push_back({.first_row = rows(),
                              .num_rows = observers,
                              .sequence_idx = static_cast<int32_t>(step_.sequences.size()),
                              .first_weighed = by_own_rows ? end : end - observers + 1,
                              .weighed_step = by_own_rows ? 0 : 1,
                              .tokens = seen_.chosen_from,
                              .chosen = static_cast<int32_t>(seen_.head.size()) * kKvBlockTokens,
                              .pooling = seen_.choice.pooling,
                              .blocks = seen_.head.data(),
                              .index_blocks = seen_.index.data(),
                              .num_index_blocks = static_cast<int32_t>(seen_.index.size()),
                              .indexed = seen_.indexed_tokens});
  if (by_own_rows) {
    observers_ = observers;
    // Keys are half of the cached bytes; a quantized key's 16 bytes are 1/32 of a token's key and
    // value (128 dimensions each, bf16).
    kv_tokens_ += seen_.choice.by_index ? end / 32 : end / 2;
  } else {
    add_last_tokens(sequence, observers);
  }
  step_.sequences.push_back({sequence.kv.block_table().data()});
}

// Adds rows that write no KV: an earlier Step has written it, and other rows may be reading the
// same blocks.
void StepBuilder::add_last_tokens(const RoleSequence& sequence, int32_t count) {
  const std::span<const TokenId> prefix = sequence.kv.prefix();
  const auto end = static_cast<int32_t>(prefix.size());
  for (int32_t position = end - count; position < end; ++position) {
    step_.rows.push_back({.token = prefix[static_cast<size_t>(position)],
                          .position = position,
                          .sequence_idx = static_cast<int32_t>(step_.sequences.size()),
                          .slot = kNoSlot,
                          .visible = position + 1,
                          .boundary = position + 1,
                          .ancestor_begin = 0,
                          .wants_logits = true});
    ++logits_rows_;
    attended_tokens_ += position + 1;
  }
  context_tokens_ = std::max(context_tokens_, end);
  kv_tokens_ += end;
}

Status StepBuilder::add_row(RoleSequence& sequence, PendingItem& item, size_t row_idx) {
  const WorkRow& row = item.item.rows[row_idx];
  if (row.token < 0 || row.token >= vocab_) {
    return internal("token " + std::to_string(row.token) + " at position " +
                    std::to_string(row.position) + "; accepted: 0 to " +
                    std::to_string(vocab_ - 1));
  }
  if (row.position >= sequence.spec.max_tokens) {
    return Status(StatusCode::kResourceExhausted,
                  "position " + std::to_string(row.position) + " is past the sequence's limit of " +
                      std::to_string(sequence.spec.max_tokens) + " tokens");
  }
  StepRow out;
  out.token = row.token;
  out.position = row.position;
  out.visible = row.position + 1 - sequence.kv.first_position() - seen_.skipped_tokens;
  out.sequence_idx = static_cast<int32_t>(step_.sequences.size());
  int32_t tree_idx = -1;
  FORERUN_RETURN_IF_ERROR(row.node == kNoNode ? add_prefix_row(sequence, row, out)
                                              : add_tree_row(sequence, row, out, &tree_idx));
  const bool rejection_row = item.item.verify_by_rejection && tree_idx >= 0;
  // The last layer computes queries only for rows that want logits, and observers must have them.
  const bool observes = rows() < first_row_ + observers_;
  const bool scores = sequence.scores(row);
  out.wants_logits = row.want != Want::kNothing || rejection_row || observes || scores;
  PathRange path;
  if (out.wants_logits && sequence.looks_back) path = add_path(sequence, tree_idx);
  if (scores) FORERUN_RETURN_IF_ERROR(add_score(sequence, item, row_idx));
  if (row.want != Want::kNothing) {
    add_task(sequence, item, row, path);
    tasks_.back().status = mask_error(sequence, item, row_idx);
    if (!item.constrained.empty()) tasks_.back().context.state = &item.constrained[row_idx];
  }
  if (rejection_row) {
    FORERUN_RETURN_IF_ERROR(add_rejection_row(sequence, item, row_idx, path));
  }
  if (features_ != nullptr) {
    step_.features.push_back(features_->feature_of(sequence, item, row_idx));
    if (step_.features.back().place < 0) {
      return internal("the row at position " + std::to_string(row.position) +
                      " starts from hidden states that were not kept");
    }
  }
  if (sequence.taps.keeps()) add_tap(sequence, row);
  if (out.wants_logits) ++logits_rows_;
  context_tokens_ = std::max(context_tokens_, out.visible);
  attended_tokens_ += out.visible;
  step_.rows.push_back(out);
  return {};
}

void StepBuilder::add_tap(RoleSequence& sequence, const WorkRow& row) {
  int32_t place = -1;
  if (row.node != kNoNode) {
    // Rows that the target runs through a view never become prefix.
    if (role_ == Role::kDraft || seen_.skipped_tokens == 0)
      place = sequence.taps.add_node(row.node);
  } else if (role_ == Role::kTarget &&
             row.position + TapPlaces::kMaxKept >= sequence.spec.prompt_tokens) {
    place = sequence.taps.add_prefix(row.position);
  }
  if (place >= 0) step_.taps.push_back({.row = rows(), .place = place});
}

Status StepBuilder::add_prefix_row(RoleSequence& sequence, const WorkRow& row, StepRow& out) {
  if (!sequence.kv.tree_rows().empty()) {
    return internal("prefix row at position " + std::to_string(row.position) +
                    " while the tree region holds " +
                    std::to_string(sequence.kv.tree_rows().size()) + " rows");
  }
  if (row.position != sequence.kv.end_position()) {
    return internal("prefix row at position " + std::to_string(row.position) +
                    "; the prefix continues at " + std::to_string(sequence.kv.end_position()));
  }
  if (seen_.skipped_tokens > 0) {
    if (role_ == Role::kTarget) {
      return internal("prefix row at position " + std::to_string(row.position) +
                      " through a view; the target's see everything");
    }
    sequence.kv.stop_sharing();
  }
  out.slot = sequence.kv.append_prefix(row.token) - seen_.skipped_tokens;
  out.boundary = out.visible;
  out.ancestor_begin = static_cast<int32_t>(step_.ancestors.size());
  sequence.count_token(row.token, row.position);
  return {};
}

Status StepBuilder::add_tree_row(RoleSequence& sequence, const WorkRow& row, StepRow& out,
                                 int32_t* tree_idx) {
  SequenceKv& kv = sequence.kv;
  if (kv.find(row.node) >= 0) {
    return internal("node " + std::to_string(row.node) + " has KV already");
  }
  const int32_t parent_idx = row.parent == kNoNode ? -1 : kv.find(row.parent);
  if (row.parent != kNoNode && parent_idx < 0) {
    return internal("node " + std::to_string(row.node) + " continues node " +
                    std::to_string(row.parent) + ", which has no KV");
  }
  const int32_t expected = parent_idx < 0
                               ? kv.end_position()
                               : kv.tree_rows()[static_cast<size_t>(parent_idx)].position + 1;
  if (row.position != expected) {
    return internal("node " + std::to_string(row.node) + " at position " +
                    std::to_string(row.position) + "; its parent puts it at " +
                    std::to_string(expected));
  }
  const bool is_sparse =
      seen_.skipped_tokens > 0 || (features_ != nullptr && row.parent != kNoNode);
  *tree_idx = kv.append_tree(row.node, parent_idx, row.token, is_sparse);
  out.slot = kv.slot_of(*tree_idx) - seen_.skipped_tokens;
  out.boundary = kv.prefix_length() - seen_.skipped_tokens;
  out.ancestor_begin = static_cast<int32_t>(step_.ancestors.size());
  // Walks the path from the row to the root, so it fills the list from the back.
  step_.ancestors.resize(step_.ancestors.size() + static_cast<size_t>(out.visible - out.boundary));
  size_t cell = step_.ancestors.size();
  for (int32_t above = *tree_idx; above >= 0;
       above = kv.tree_rows()[static_cast<size_t>(above)].parent_idx) {
    step_.ancestors[--cell] = kv.slot_of(above) - seen_.skipped_tokens;
  }
  return {};
}

StepBuilder::PathRange StepBuilder::add_path(const RoleSequence& sequence, int32_t tree_idx) {
  const PathRange path{path_tokens_.size(), 0};
  for (int32_t above = tree_idx; above >= 0;
       above = sequence.kv.tree_rows()[static_cast<size_t>(above)].parent_idx) {
    path_tokens_.push_back(sequence.kv.tree_rows()[static_cast<size_t>(above)].token);
  }
  std::reverse(path_tokens_.begin() + static_cast<ptrdiff_t>(path.begin), path_tokens_.end());
  return {path.begin, path_tokens_.size() - path.begin};
}

RowContext StepBuilder::context_of(const RoleSequence& sequence, const WorkRow& row) const {
  RowContext context;
  context.params = &sequence.spec.sampling;
  context.position = row.position + 1;
  context.prompt_tokens = sequence.spec.prompt_tokens;
  context.history = sequence.looks_back ? &sequence.counts : nullptr;
  context.constraint = sequence.spec.constraint.get();
  context.constrained = &sequence.constrained;
  return context;
}

// Returns why a row's mask has failed, for the target, which then draws nothing. Returns ok for a
// draft, which then does not mask its guesses.
Status StepBuilder::mask_error(const RoleSequence& sequence, const PendingItem& item,
                               size_t row_idx) const {
  if (role_ == Role::kDraft || item.constrained.empty()) return {};
  const TokenConstraint::State& state = item.constrained[row_idx];
  return state == nullptr ? Status() : sequence.spec.constraint->error(state);
}

void StepBuilder::add_task(RoleSequence& sequence, PendingItem& item, const WorkRow& row,
                           PathRange path) {
  RowTask task;
  task.want = row.want;
  task.count = row.count;
  task.shared_noise = item.item.shared_noise;
  task.step_row = rows();
  task.logits_row = logits_rows_;
  task.context = context_of(sequence, row);
  if (row.want == Want::kDraw) {
    auto distribution = std::make_shared<DraftDistribution>();
    task.distribution = distribution.get();
    item.distributions.push_back({row.node, row.position, std::move(distribution)});
  }
  task_origins_.push_back({&item, &WorkResult::rows, item.result.rows.size(), path});
  tasks_.push_back(std::move(task));
  RowResult result;
  result.node = row.node;
  result.position = row.position;
  item.result.rows.push_back(std::move(result));
}

Status StepBuilder::add_score(const RoleSequence& sequence, PendingItem& item, size_t row_idx) {
  static const SamplingParams kUnprocessed;
  const std::vector<WorkRow>& item_rows = item.item.rows;
  const WorkRow& row = item_rows[row_idx];
  if (row_idx + 1 >= item_rows.size() || item_rows[row_idx + 1].node != kNoNode) {
    return internal("the prompt's row at position " + std::to_string(row.position) +
                    " is to be scored by the token after it, which its item lacks");
  }
  if (row.want != Want::kNothing) {
    return internal("the prompt's row at position " + std::to_string(row.position) +
                    " is to be scored, and its item wants something else of it");
  }
  RowTask task;
  task.want = Want::kScore;
  task.count = sequence.spec.sampling.prompt_logprobs;
  task.token = item_rows[row_idx + 1].token;
  task.step_row = rows();
  task.logits_row = logits_rows_;
  task.context.params = &kUnprocessed;
  task.context.position = row.position + 1;
  task.context.prompt_tokens = sequence.spec.prompt_tokens;
  task_origins_.push_back({&item, &WorkResult::scores, item.result.scores.size(), {}});
  tasks_.push_back(std::move(task));
  RowResult result;
  result.position = row.position;
  item.result.scores.push_back(std::move(result));
  return {};
}

Status StepBuilder::add_rejection_row(RoleSequence& sequence, PendingItem& item, size_t row_idx,
                                      PathRange path) {
  const WorkRow& row = item.item.rows[row_idx];
  RejectionRow out;
  out.node = row.node;
  out.token = row.token;
  out.logits_row = logits_rows_;
  out.context = context_of(sequence, row);
  out.status = mask_error(sequence, item, row_idx);
  if (!item.constrained.empty()) out.context.state = &item.constrained[row_idx];
  if (row_idx < item.drafts.size()) out.draft = item.drafts[row_idx].get();
  const size_t first = rejection_origins_.empty() ? 0 : rejection_origins_.back().end;
  for (size_t index = first; index < rejection_rows_.size() && out.parent_idx < 0; ++index) {
    if (rejection_rows_[index].node == row.parent) {
      out.parent_idx = static_cast<int32_t>(index - first);
    }
  }
  if (rejection_rows_.size() > first && out.parent_idx < 0) {
    return internal("node " + std::to_string(row.node) +
                    " is to be verified but does not descend from the item's first tree row");
  }
  rejection_rows_.push_back(out);
  rejection_paths_.push_back(path);
  return {};
}

StepBuilder::Built StepBuilder::finish() {
  const auto view = [this](PathRange path) {
    return std::span<const TokenId>(path_tokens_).subspan(path.begin, path.length);
  };
  for (size_t index = 0; index < tasks_.size(); ++index) {
    const TaskOrigin& origin = task_origins_[index];
    tasks_[index].context.path = view(origin.path);
    tasks_[index].result = &(origin.item->result.*origin.results)[origin.result_idx];
  }
  for (size_t index = 0; index < rejection_rows_.size(); ++index) {
    rejection_rows_[index].context.path = view(rejection_paths_[index]);
  }
  for (const RejectionOrigin& origin : rejection_origins_) {
    RejectionTask task;
    task.rows = std::span<const RejectionRow>(rejection_rows_)
                    .subspan(origin.begin, origin.end - origin.begin);
    task.result = &origin.item->result;
    rejections_.push_back(std::move(task));
  }
  return {&step_, tasks_, rejections_};
}

}  // namespace forerun
