// How RoleWorker composes a Step: whose rows it takes, and how many.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "exec/role_worker.h"

namespace forerun {
namespace {

// How many of the `count` rows that were taken from the item last are scored.
int32_t scored_rows(const RoleSequence& sequence, const PendingItem& item, int32_t count) {
  const auto end = item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done);
  return static_cast<int32_t>(
      std::count_if(end - count, end, [&](const WorkRow& row) { return sequence.scores(row); }));
}

bool is_shareable(const WorkRow& row) { return row.node == kNoNode && row.want == Want::kNothing; }

}  // namespace

bool RoleWorker::reuse_prefix(RoleSequence& sequence, PendingItem& item) {
  const std::vector<WorkRow>& rows = item.item.rows;
  // At least one row is run, so that the item's turn gives a result.
  const size_t last = rows.size() - 1;
  if (!sequence.kv.can_adopt() || item.rows_done + kKvBlockTokens > last ||
      rows[item.rows_done].position != sequence.kv.prefix_length()) {
    return false;
  }
  // Block by block: a prompt that waits for its turn is looked at in every Step.
  while (true) {
    const size_t end = item.rows_done + kKvBlockTokens;
    tokens_.clear();
    for (size_t row = item.rows_done; row < end && end <= last && is_shareable(rows[row]); ++row) {
      tokens_.push_back(rows[row].token);
    }
    if (tokens_.size() < kKvBlockTokens) return false;
    if (sequence.kv.adopt(tokens_) == 0) break;
    for (; item.rows_done < end; ++item.rows_done) {
      sequence.count_token(rows[item.rows_done].token, rows[item.rows_done].position);
    }
    item.result.reused_rows += kKvBlockTokens;
  }
  for (const BlockInWork& block : blocks_in_work_) {
    const bool same =
        block.before == sequence.kv.published_text() &&
        std::equal(tokens_.begin(), tokens_.end(), block.rows,
                   [](TokenId token, const WorkRow& row) { return token == row.token; });
    if (same) return true;
  }
  return false;
}

// The prefix block that the item's next rows begin or continue; no rows where it cannot be shared.
RoleWorker::BlockInWork RoleWorker::next_block(const RoleSequence& sequence,
                                               const PendingItem& item) {
  const auto begun = static_cast<size_t>(sequence.kv.prefix_length() % kKvBlockTokens);
  if (!sequence.kv.is_sharing() || begun > item.rows_done ||
      item.rows_done - begun + kKvBlockTokens > item.item.rows.size()) {
    return {};
  }
  const WorkRow* rows = &item.item.rows[item.rows_done - begun];
  if (!std::all_of(rows, rows + kKvBlockTokens, is_shareable)) return {};
  return {sequence.kv.published_text(), rows};
}

// The most rows that a Step takes of a prompt with `left` rows left: its pieces fill the pipeline
// twice, but none is smaller than a block, for which reading a stage's weights would not pay.
int32_t RoleWorker::max_prompt_rows(int32_t left) const {
  const int32_t share = left / (2 * pipeline_->num_stages());
  return std::max(1, share / kKvBlockTokens + (share % kKvBlockTokens > 0 ? 1 : 0)) *
         kKvBlockTokens;
}

// How many rows of the item go into the Step being built: all that are left; for a prompt, as many
// as the scheduler allows; for an item larger than any Step, a piece. 0: the item waits for the
// next Step.
int32_t RoleWorker::piece_rows(const RoleSequence& sequence, const PendingItem& item,
                               bool is_prompt) const {
  const std::vector<WorkRow>& rows = item.item.rows;
  const auto left = static_cast<int32_t>(rows.size() - item.rows_done);
  // Some rows are left to waiting prompts, except where a single item needs the whole Step.
  const int32_t kept = composed_->builder.empty() || is_prompt ? 0 : rows_for_prompts_;
  const int32_t room = std::max(0, scheduler_.row_budget() - composed_->builder.rows() - kept);
  int32_t count = std::min(left, room);
  if (is_prompt) {
    count = scheduler_.prompt_rows(composed_->builder.load(), rows[item.rows_done].position, left,
                                   prompt_budget_seconds_, prompt_rows_ == 0);
    if (is_pipelined()) count = std::min(count, max_prompt_rows(left));
  } else if (left > room && left <= scheduler_.row_budget()) {
    return 0;
  }
  const auto row_at = [&](int32_t offset) -> const WorkRow& {
    return rows[item.rows_done + static_cast<size_t>(offset)];
  };
  if (sequence.looks_back) {
    // The token counts are those of the last prefix row of the Step, so a prefix row that samples
    // must be it.
    for (int32_t offset = 0; offset + 1 < count; ++offset) {
      if (row_at(offset).want != Want::kNothing && row_at(offset + 1).node == kNoNode) {
        return offset + 1;
      }
    }
  }
  if (sequence.scores(row_at(0))) {
    count = std::min(count, std::max(0, kMaxScoredRows - scored_rows_));
  }
  if (item.item.verify_by_rejection && count < left) {
    // The tree rows of a verification by rejection need their logits in the same Step.
    int32_t prefix_rows = 0;
    while (prefix_rows < left && row_at(prefix_rows).node == kNoNode) ++prefix_rows;
    count = std::min(count, prefix_rows);
  }
  return count;
}

// Reports that the sequence's next rows find no KV blocks; it gets its turn again once there are
// more.
void RoleWorker::wait_for_memory(RoleSequence& sequence, const Status& status,
                                 std::vector<FinishedItem>& finished) {
  const PendingItem& item = sequence.queue.next();
  const int64_t free = pool_.free_blocks();
  free_when_out_of_memory_ =
      out_of_memory_.empty() ? free : std::min(free, free_when_out_of_memory_);
  out_of_memory_.push_back(&sequence);
  sequence.has_turn = true;
  // Blocks of sequences that have been closed are about to return.
  if (!closed_.empty()) return;
  FinishedItem notice;
  notice.opening = item.opening;
  notice.result.sequence = sequence.id;
  notice.result.role = role_;
  notice.result.tag = item.item.tag;
  notice.result.status = status.with_context(describe(sequence));
  notice.result.waits_for_memory = true;
  notice.closings = closings_;
  finished.push_back(std::move(notice));
}

// Applies the edits that are due; false where the item failed because of them.
bool RoleWorker::apply_due_edits(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  if (!sequence.queue.has_next() || !sequence.failed.ok()) return true;
  PendingItem& item = sequence.queue.next();
  if (std::exchange(item.edits_done, true)) return true;
  const Status status = apply_edits(sequence, item.item.edits);
  if (!status.ok()) fail_next(sequence, status, finished);
  return status.ok();
}

// Does all of the sequence's work that needs no Step, and adds its next rows to the Step. Returns
// whether the sequence needs another turn, its piece in this Step included.
bool RoleWorker::take_turn(RoleSequence& sequence, std::vector<FinishedItem>& finished) {
  while (sequence.queue.has_next()) {
    PendingItem& item = sequence.queue.next();
    if (!sequence.failed.ok()) {
      if (sequence.steps_under_way == 0) fail_all(sequence, finished);
      return false;
    }
    if (!apply_due_edits(sequence, finished)) continue;
    if (item.item.rows.empty()) {
      sequence.queue.pop_next();
      continue;
    }
    if (sequence.spec.constraint != nullptr) find_states(sequence, item);
    if (reuse_prefix(sequence, item)) return true;
    if (!leave_out_late_guesses(sequence, item)) return false;
    const auto left = static_cast<int32_t>(item.item.rows.size() - item.rows_done);
    const bool is_prompt = sequence.reads_prompt();
    const int32_t count = piece_rows(sequence, item, is_prompt);
    if (count == 0) {
      if (!composed_->builder.empty()) return true;
      fail_next(sequence,
                Status(StatusCode::kInternal,
                       "verification by rejection of " + std::to_string(left) +
                           " tree rows; a Step takes " + std::to_string(scheduler_.row_budget())),
                finished);
      continue;
    }
    if (!has_masks(sequence, item, count)) return false;
    if (Status status = sequence.reserve(item.item, count); !status.ok()) {
      wait_for_memory(sequence, status, finished);
      return false;
    }
    const BlockInWork block = is_prompt ? next_block(sequence, item) : BlockInWork{};
    if (Status status = composed_->builder.add(sequence, item, count); !status.ok()) {
      fail_next(sequence, status, finished);
      continue;
    }
    if (is_prompt) prompt_rows_ += count;
    scored_rows_ += scored_rows(sequence, item, count);
    if (block.rows != nullptr) blocks_in_work_.push_back(block);
    const auto end = item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done);
    const bool samples = item.item.verify_by_rejection ||
                         std::any_of(end - count, end,
                                     [](const WorkRow& row) { return row.want != Want::kNothing; });
    composed_->pieces.push_back({.sequence = &sequence,
                                 .item = &item,
                                 .first_item_row = item.rows_done - static_cast<size_t>(count),
                                 .first_step_row = composed_->builder.rows() - count,
                                 .count = count,
                                 .is_last = item.rows_done == item.item.rows.size(),
                                 .samples = samples});
    if (trace_) composed_->items.push_back({sequence.id, count, item.submit_ns});
    return true;
  }
  return false;
}

void RoleWorker::leave_out_guesses(size_t decoding) {
  guesses_.clear();
  for (size_t turn = 0; turn < decoding; ++turn) {
    RoleSequence& sequence = *turns_[turn].sequence;
    if (!sequence.queue.has_next() || sequence.queue.next().rows_done > 0) continue;
    WorkItem& item = sequence.queue.next().item;
    // The blocks that the item's rows see of the prefix.
    const int32_t prefix = sequence.kv.prefix_length();
    guesses_.add(item, item.view.kind == nullptr ? prefix : std::min(prefix, item.view.budget));
  }
  if (!guesses_.any()) return;
  const auto waiting = static_cast<int64_t>(turns_.size() - decoding);
  const auto decode = std::max(static_cast<int64_t>(decoding), int64_t{decoding_sequences_});
  // Guesses take no rows from prompts.
  size_t prompt_rows = 0;
  for (size_t turn = decoding; turn < turns_.size(); ++turn) {
    const PendingItem& item = turns_[turn].sequence->queue.next();
    prompt_rows += item.item.rows.size() - item.rows_done;
  }
  const StepLoad& certain = guesses_.certain();
  const auto most = std::min(prompt_rows, static_cast<size_t>(scheduler_.row_budget()));
  const int32_t beside =
      scheduler_.prompt_rows(certain, 0, static_cast<int32_t>(most),
                             scheduler_.budget_seconds(certain, waiting, decode), /*first=*/true);
  guesses_.leave_out(scheduler_, decode + waiting, beside);
}

void RoleWorker::leave_out_drafts(int64_t held_up, std::vector<FinishedItem>& finished) {
  offers_.clear();
  StepLoad certain{.rows = 0, .sequences = 0};
  for (size_t turn = 0; turn < turns_.size(); ++turn) {
    const RoleSequence& sequence = *turns_[turn].sequence;
    if (!sequence.queue.has_next()) continue;
    const PendingItem& item = *sequence.queue.waiting().front();
    const auto rows = static_cast<int32_t>(std::count_if(
        item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done), item.item.rows.end(),
        [](const WorkRow& row) { return row.node != kNoNode; }));
    if (rows == 0) continue;
    const int32_t context = item.item.rows.back().position;
    if (item.rows_done == 0 && std::isfinite(item.item.gain)) {
      offers_.push_back({.gain = item.item.gain, .rows = rows, .context = context, .turn = turn});
    } else {
      certain.rows += rows;
      certain.sequences += 1;
      certain.kv_tokens += context + rows;
    }
  }
  if (offers_.empty()) return;
  std::stable_sort(offers_.begin(), offers_.end(),
                   [](const DraftOffer& a, const DraftOffer& b) { return a.gain > b.gain; });
  const size_t taken = scheduler_.draft_items(certain, offers_, held_up);
  for (size_t offer = taken; offer < offers_.size(); ++offer) {
    RoleSequence& sequence = *turns_[offers_[offer].turn].sequence;
    WorkResult& result = sequence.queue.next().result;
    result.left_out = true;
    result.step_sequences = static_cast<int32_t>(offers_.size() - taken);
    finish_next(sequence, finished);
  }
}

// Where the next rows of a sequence whose items follow each other do not fit, another sequence's
// may; the ones left out come first in the next Step.
bool RoleWorker::has_room_for(const RoleSequence& sequence) const {
  if (!sequence.follows) return waiting_served_ < max_waiting_;
  if (following_rows_ == 0 || !sequence.queue.has_next()) return true;
  const PendingItem& item = *sequence.queue.waiting().front();
  const auto rows = static_cast<int64_t>(item.item.rows.size() - item.rows_done);
  return following_rows_ + rows <= max_following_rows_;
}

// One Step in sixteen gives the first turn to a sequence below the highest priority for which the
// last fifteen Steps had no room, so that it progresses however many requests of higher priority
// come.
void RoleWorker::mark_overdue() {
  constexpr int32_t kMaxPassedOver = 15;
  if (++steps_since_overdue_ < kMaxPassedOver) return;
  std::array<int32_t, 2> highest;  // [0]: of sequences that decode; [1]: of prompts
  highest.fill(std::numeric_limits<int32_t>::min());
  for (const Turn& turn : turns_) {
    highest[turn.prompt] = std::max(highest[turn.prompt], turn.priority);
  }
  Turn* most = nullptr;
  for (Turn& turn : turns_) {
    if (turn.sequence->passed_over < kMaxPassedOver || turn.priority >= highest[turn.prompt])
      continue;
    if (most == nullptr || turn.sequence->passed_over > most->sequence->passed_over) most = &turn;
  }
  if (most == nullptr) return;
  most->is_overdue = true;
  steps_since_overdue_ = 0;
}

// Decoding and verification come first, then prompts; within each, higher priorities come first,
// and prompts in the order of arrival. Sequences that get no room keep their place in the order;
// those that are served go to the back.
void RoleWorker::compose(std::vector<FinishedItem>& finished, int64_t held_up) {
  prompt_rows_ = scored_rows_ = 0;
  if (memory_has_returned()) {
    ready_.insert(ready_.begin(), out_of_memory_.begin(), out_of_memory_.end());
    out_of_memory_.clear();
  }
  closed_since_out_of_memory_ = false;
  mask_steps_ = kMaskStepsOfStep;
  const auto come = std::stable_partition(late_.begin(), late_.end(), is_late);
  ready_.insert(ready_.begin(), come, late_.end());
  late_.erase(come, late_.end());
  turns_.clear();
  for (size_t place = 0; place < ready_.size(); ++place) {
    RoleSequence* sequence = ready_[place];
    const bool prompt = sequence->reads_prompt();
    turns_.push_back({.prompt = prompt,
                      .priority = sequence->spec.priority,
                      .order = prompt ? sequence->arrival : place,
                      .sequence = sequence});
  }
  ready_.clear();
  mark_overdue();
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    if (a.prompt != b.prompt) return b.prompt;
    if (a.is_overdue != b.is_overdue) return a.is_overdue;
    return a.priority != b.priority ? a.priority > b.priority : a.order < b.order;
  });
  const auto prompts =
      std::find_if(turns_.begin(), turns_.end(), [](const Turn& turn) { return turn.prompt; });
  // Edits may give back blocks that other sequences lack, so all are applied first.
  for (const Turn& turn : turns_) apply_due_edits(*turn.sequence, finished);
  rows_for_prompts_ = prompts == turns_.end()
                          ? 0
                          : std::min(StepScheduler::kMinPromptRows, scheduler_.row_budget() / 2);
  const auto decoding_turns = static_cast<size_t>(std::distance(turns_.begin(), prompts));
  if (held_up > 1) leave_out_drafts(held_up, finished);
  leave_out_guesses(decoding_turns);
  waiting_served_ = following_rows_ = 0;
  const auto take_turns = [&](auto begin, auto end) {
    for (auto turn = begin; turn != end; ++turn) {
      RoleSequence& sequence = *turn->sequence;
      const size_t served = composed_->pieces.size();
      sequence.has_turn = false;
      if (!turn->prompt && !has_room_for(sequence)) {
        ++sequence.passed_over;
        give_turn(sequence);
        continue;
      }
      const bool goes_on = take_turn(sequence, finished);
      const bool is_served = composed_->pieces.size() > served;
      sequence.passed_over = is_served ? 0 : sequence.passed_over + 1;
      if (!is_served) {
        if (goes_on) give_turn(sequence);
      } else if (sequence.follows) {
        following_rows_ += composed_->pieces.back().count;
      } else {
        ++waiting_served_;
      }
    }
  };
  take_turns(turns_.begin(), prompts);
  // Requests whose next rows are still to be submitted, after the engine's or the other role's
  // work, count as decoding too.
  const StepLoad load = composed_->builder.load();
  const int32_t decoding =
      std::max({load.sequences, decoding_sequences_, static_cast<int32_t>(held_up > 0)});
  prompt_budget_seconds_ =
      scheduler_.budget_seconds(load, std::distance(prompts, turns_.end()), decoding);
  take_turns(prompts, turns_.end());
}

}  // namespace forerun
