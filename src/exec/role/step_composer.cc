#include "exec/role/step_composer.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

// Returns how many of the item's last `count` taken rows are scored.
int32_t scored_rows(const RoleSequence& sequence, const PendingItem& item, int32_t count) {
  const auto end = item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done);
  return static_cast<int32_t>(
      std::count_if(end - count, end, [&](const WorkRow& row) { return sequence.scores(row); }));
}

// Returns how many of the item's next `count` rows may share a Step if the sampler reads the
// history. The token counts are those of the last prefix row of the Step, so a prefix row that
// samples must be the last one.
int32_t rows_up_to_sample(const PendingItem& item, int32_t count) {
  const WorkRow* rows = item.item.rows.data() + item.rows_done;
  for (int32_t row = 0; row + 1 < count; ++row) {
    if (rows[row].want != Want::kNothing && rows[row + 1].node == kNoNode) return row + 1;
  }
  return count;
}

}  // namespace

StepComposer::StepComposer(const Parts& parts)
    : scheduler_(*parts.scheduler),
      sequences_(*parts.sequences),
      edits_(*parts.edits),
      finisher_(*parts.finisher),
      features_(parts.features),
      traces_(parts.traces),
      memory_(parts.pool),
      filter_(parts.scheduler, parts.finisher) {}

void StepComposer::note_closing(RoleSequence* sequence) {
  ++closings_;
  memory_.note_closed();
  if (sequence == nullptr) return;
  memory_.forget(*sequence);
  masks_.forget(*sequence);
}

// Returns the most rows that a Step takes of a prompt with `left` rows left: its pieces fill the
// pipeline twice, but none is smaller than a block, since reading a stage's weights for less would
// not pay off.
int32_t StepComposer::max_prompt_rows(int32_t left) const {
  const int32_t share = left / (2 * limits_.stages);
  return std::max(1, share / kKvBlockTokens + (share % kKvBlockTokens > 0 ? 1 : 0)) *
         kKvBlockTokens;
}

bool StepComposer::prompts_fill_up() const {
  constexpr int32_t kMaxSteps = 16;  // that are filled up with the prompts that wait
  const int32_t kept = counts_.rows_for_prompts;
  if (limits_.stages == 0 || sequences_.following() == 0 || limits_.following_rows < 2 * kept) {
    return false;
  }
  size_t left = 0;
  for (const StepQueue::Entry& entry : queue_.prompts()) {
    if (!entry.sequence->queue.has_next()) continue;
    const PendingItem& item = *entry.sequence->queue.waiting().front();
    left += item.item.rows.size() - item.rows_done;
  }
  return left <= static_cast<size_t>(kMaxSteps * kept);
}

// How many of the prompt's next `left` rows are nearly free. Where none are, because an item that
// was chosen before the prompt came takes them all, the prompt waits for one Step.
int32_t StepComposer::rows_left_over(const RoleSequence& prompt, int32_t left) const {
  const int32_t kept = counts_.rows_for_prompts;
  const int32_t taken = step_->builder.rows();
  const int32_t free = limits_.following_rows - taken;
  const int32_t rows = free >= kept ? free : prompt.passed_over > 0 ? kept : 0;
  return std::clamp(std::min(left, rows), 0, scheduler_.row_budget() - taken);
}

// Returns how many of the item's next rows fit into the Step.
int32_t StepComposer::row_limit(const RoleSequence& sequence, const PendingItem& item,
                                bool is_prompt) const {
  const auto left = static_cast<int32_t>(item.item.rows.size() - item.rows_done);
  if (is_prompt && counts_.prompts_fill_up) return rows_left_over(sequence, left);
  if (is_prompt) {
    const int32_t position = item.item.rows[item.rows_done].position;
    const int32_t rows =
        scheduler_.prompt_rows(step_->builder.load(), position, left, counts_.prompt_budget_seconds,
                               counts_.prompt_rows == 0);
    return limits_.stages > 0 ? std::min(rows, max_prompt_rows(left)) : rows;
  }
  // Reserves some rows for waiting prompts, unless a single item needs the whole Step.
  const int32_t kept = step_->builder.empty() ? 0 : counts_.rows_for_prompts;
  const int32_t room = std::max(0, scheduler_.row_budget() - step_->builder.rows() - kept);
  if (left > room && left <= scheduler_.row_budget()) return 0;
  return std::min(left, room);
}

// Returns how many rows of the item go into the Step: all that are left; for a prompt, as many as
// the scheduler allows; for an item larger than any Step, a piece. 0 means that the item waits for
// the next Step.
int32_t StepComposer::piece_rows(const RoleSequence& sequence, const PendingItem& item,
                                 bool is_prompt) const {
  const std::vector<WorkRow>& rows = item.item.rows;
  int32_t count = row_limit(sequence, item, is_prompt);
  if (count == 0) return 0;
  if (sequence.looks_back) count = rows_up_to_sample(item, count);
  if (sequence.scores(rows[item.rows_done])) {
    count = std::min(count, std::max(0, kMaxScoredRows - counts_.scored_rows));
  }
  const auto left = static_cast<int32_t>(rows.size() - item.rows_done);
  if (item.item.verify_by_rejection && count < left) {
    // The tree rows of a verification by rejection need their logits in the same Step.
    const auto next = rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done);
    const auto tree =
        std::find_if(next, rows.end(), [](const WorkRow& row) { return row.node != kNoNode; });
    count = std::min(count, static_cast<int32_t>(tree - next));
  }
  return count;
}

// Reports that the sequence's next rows find no KV blocks; it becomes ready again once there are
// more.
void StepComposer::wait_for_memory(RoleSequence& sequence, const Status& status,
                                   std::vector<FinishedItem>& finished) {
  memory_.add(sequence);
  // Closed sequences are about to free blocks.
  if (sequences_.has_closed()) return;
  FinishedItem notice = finisher_.notice(sequence, sequence.queue.next());
  notice.result.status = finisher_.in_context(status, sequence);
  notice.result.waits_for_memory = true;
  notice.closings = closings_;
  finished.push_back(std::move(notice));
}

// Applies the due edits; returns false if the item failed because of them.
bool StepComposer::apply_due_edits(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  if (!sequence.queue.has_next() || !sequence.failed.ok()) return true;
  PendingItem& item = sequence.queue.next();
  if (std::exchange(item.edits_done, true)) return true;
  const Status status = edits_.apply(sequence, item.item.edits);
  if (!status.ok()) finisher_.fail_next(sequence, status, finished);
  return status.ok();
}

// Adds the item's next `count` rows; their blocks must be reserved.
Status StepComposer::add_piece(RoleSequence& sequence, PendingItem& item, int32_t count,
                               bool is_prompt) {
  const PrefixReuse::BlockInWork block =
      is_prompt ? PrefixReuse::next_block(sequence, item) : PrefixReuse::BlockInWork{};
  FORERUN_RETURN_IF_ERROR(step_->builder.add(sequence, item, count));
  if (is_prompt) counts_.prompt_rows += count;
  counts_.scored_rows += scored_rows(sequence, item, count);
  prefixes_.note_in_work(block);
  const auto end = item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done);
  const bool samples =
      item.item.verify_by_rejection ||
      std::any_of(end - count, end, [](const WorkRow& row) { return row.want != Want::kNothing; });
  step_->pieces.push_back({.sequence = &sequence,
                           .item = &item,
                           .first_item_row = item.rows_done - static_cast<size_t>(count),
                           .first_step_row = step_->builder.rows() - count,
                           .count = count,
                           .is_last = item.rows_done == item.item.rows.size(),
                           .samples = samples});
  if (traces_) step_->items.push_back({sequence.id, count, item.submit_ns});
  return {};
}

// Does all of the sequence's work that needs no Step, and adds its next rows to the Step. Returns
// whether the sequence has more to do, including its piece in this Step.
bool StepComposer::take_rows(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  while (sequence.queue.has_next()) {
    PendingItem& item = sequence.queue.next();
    if (!sequence.failed.ok()) {
      if (sequence.steps_under_way == 0) finisher_.fail_all(sequence, finished);
      return false;
    }
    if (!apply_due_edits(sequence, finished)) continue;
    if (item.item.rows.empty()) {
      sequence.queue.pop_next();
      continue;
    }
    if (sequence.spec.constraint != nullptr) MaskWaits::find_states(sequence, item);
    if (features_ != nullptr && !features_->begin(sequence, item)) {
      finisher_.finish_next(sequence, finished);
      continue;
    }
    if (prefixes_.skip_cached(sequence, item)) return true;
    if (features_ != nullptr && !features_->pass_over_missing(sequence, item)) {
      finisher_.finish_next(sequence, finished);
      continue;
    }
    if (!masks_.leave_out_late_guesses(sequence, item)) return false;
    const bool is_prompt = sequence.reads_prompt();
    const int32_t count = piece_rows(sequence, item, is_prompt);
    if (count == 0) {
      if (!step_->builder.empty()) return true;
      finisher_.fail_next(
          sequence,
          Status(StatusCode::kInternal, "verification by rejection of " +
                                            std::to_string(item.item.rows.size() - item.rows_done) +
                                            " tree rows; a Step takes " +
                                            std::to_string(scheduler_.row_budget())),
          finished);
      continue;
    }
    if (!masks_.has_masks(sequence, item, count)) return false;
    if (Status status = sequence.reserve(item.item, count); !status.ok()) {
      wait_for_memory(sequence, status, finished);
      return false;
    }
    if (Status status = add_piece(sequence, item, count, is_prompt); !status.ok()) {
      finisher_.fail_next(sequence, status, finished);
      continue;
    }
    return true;
  }
  return false;
}

// If the next rows of one sequence do not fit, another sequence's may; the skipped ones come first
// in the next Step.
bool StepComposer::has_room_for(const RoleSequence& sequence) const {
  if (!sequence.follows) return counts_.waiting_served < limits_.waiting;
  if (counts_.following_rows == 0 || !sequence.queue.has_next()) return true;
  const PendingItem& item = *sequence.queue.waiting().front();
  const auto rows = static_cast<int64_t>(item.item.rows.size() - item.rows_done);
  const int32_t kept = counts_.prompts_fill_up ? counts_.rows_for_prompts : 0;
  return counts_.following_rows + rows <= limits_.following_rows - kept;
}

void StepComposer::take_entries(std::span<const StepQueue::Entry> entries,
                                std::vector<FinishedItem>& finished) {
  for (const StepQueue::Entry& entry : entries) {
    RoleSequence& sequence = *entry.sequence;
    const size_t served = step_->pieces.size();
    sequence.is_queued = false;
    if (!entry.prompt && !has_room_for(sequence)) {
      ++sequence.passed_over;
      sequences_.enqueue(sequence);
      continue;
    }
    const bool goes_on = take_rows(sequence, finished);
    const bool is_served = step_->pieces.size() > served;
    sequence.passed_over = is_served ? 0 : sequence.passed_over + 1;
    if (!is_served) {
      if (goes_on) sequences_.enqueue(sequence);
    } else if (sequence.follows) {
      counts_.following_rows += step_->pieces.back().count;
    } else {
      ++counts_.waiting_served;
    }
  }
}

void StepComposer::compose(StepUnderWay& step, const Limits& limits, int64_t held_up,
                           std::vector<FinishedItem>& finished) {
  step_ = &step;
  limits_ = limits;
  counts_ = {};
  prefixes_.begin_step();
  masks_.begin_step();
  sequences_.take_ready(ready_);
  memory_.take(ready_);
  masks_.take(ready_);
  queue_.set(ready_);
  // Edits may free blocks that other sequences need, so all are applied first.
  for (const StepQueue::Entry& entry : queue_.all()) apply_due_edits(*entry.sequence, finished);
  if (!queue_.prompts().empty()) {
    counts_.rows_for_prompts = std::min(StepScheduler::kMinPromptRows, scheduler_.row_budget() / 2);
  }
  counts_.prompts_fill_up = !queue_.prompts().empty() && prompts_fill_up();
  if (held_up > 1) filter_.leave_out_drafts(queue_, held_up, finished);
  filter_.leave_out_guesses(queue_, sequences_.decoding());
  take_entries(queue_.decoding(), finished);
  // Requests whose next rows are not submitted yet, because the engine or the other role is
  // working, count as decoding too.
  const StepLoad load = step.builder.load();
  const int32_t decoding =
      std::max({load.sequences, sequences_.decoding(), static_cast<int32_t>(held_up > 0)});
  counts_.prompt_budget_seconds =
      scheduler_.budget_seconds(load, static_cast<int64_t>(queue_.prompts().size()), decoding);
  take_entries(queue_.prompts(), finished);
}

}  // namespace forerun
