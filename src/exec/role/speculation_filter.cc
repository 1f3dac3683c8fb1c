#include "exec/role/speculation_filter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace forerun {

void SpeculationFilter::leave_out_drafts(const StepQueue& queue, int64_t held_up,
                                         std::vector<FinishedItem>& finished) {
  offers_.clear();
  StepLoad certain{.rows = 0, .sequences = 0};
  for (size_t place = 0; place < queue.all().size(); ++place) {
    const RoleSequence& sequence = *queue.all()[place].sequence;
    if (!sequence.queue.has_next()) continue;
    const PendingItem& item = *sequence.queue.waiting().front();
    const auto rows = static_cast<int32_t>(std::count_if(
        item.item.rows.begin() + static_cast<std::ptrdiff_t>(item.rows_done), item.item.rows.end(),
        [](const WorkRow& row) { return row.node != kNoNode; }));
    if (rows == 0) continue;
    const int32_t context = item.item.rows.back().position;
    if (item.rows_done == 0 && std::isfinite(item.item.gain)) {
      offers_.push_back(
          {.gain = item.item.gain, .rows = rows, .context = context, .number = place});
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
    RoleSequence& sequence = *queue.all()[offers_[offer].number].sequence;
    WorkResult& result = sequence.queue.next().result;
    result.left_out = true;
    result.step_sequences = static_cast<int32_t>(offers_.size() - taken);
    finisher_.finish_next(sequence, finished);
  }
}

void SpeculationFilter::leave_out_guesses(const StepQueue& queue, int32_t decoding) {
  guesses_.clear();
  for (const StepQueue::Entry& entry : queue.decoding()) {
    RoleSequence& sequence = *entry.sequence;
    if (!sequence.queue.has_next() || sequence.queue.next().rows_done > 0) continue;
    WorkItem& item = sequence.queue.next().item;
    // The number of prefix tokens that the item's rows attend to.
    const int32_t prefix = sequence.kv.prefix_length();
    guesses_.add(item, item.view.kind == nullptr ? prefix : std::min(prefix, item.view.budget));
  }
  if (!guesses_.any()) return;
  const auto waiting = static_cast<int64_t>(queue.prompts().size());
  const auto decode = std::max(static_cast<int64_t>(queue.decoding().size()), int64_t{decoding});
  // Guesses must not take rows from prompts.
  size_t prompt_rows = 0;
  for (const StepQueue::Entry& entry : queue.prompts()) {
    const PendingItem& item = entry.sequence->queue.next();
    prompt_rows += item.item.rows.size() - item.rows_done;
  }
  const StepLoad& certain = guesses_.certain();
  const auto max_rows = std::min(prompt_rows, static_cast<size_t>(scheduler_.row_budget()));
  const int32_t beside =
      scheduler_.prompt_rows(certain, 0, static_cast<int32_t>(max_rows),
                             scheduler_.budget_seconds(certain, waiting, decode), /*first=*/true);
  guesses_.leave_out(scheduler_, decode + waiting, beside);
}

}  // namespace forerun
