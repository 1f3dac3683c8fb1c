// A filter that keeps speculative work out of a Step if it would slow down the Step more than it
// gains: guesses of verifications, and whole items of the draft.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/guess_rows.h"
#include "exec/role/item_finisher.h"
#include "exec/role/step_queue.h"
#include "exec/step_scheduler.h"

namespace forerun {

class SpeculationFilter {
 public:
  // `scheduler` and `finisher` must outlive the object.
  SpeculationFilter(const StepScheduler* scheduler, ItemFinisher* finisher)
      : scheduler_(*scheduler), finisher_(*finisher) {}

  // Finishes the draft's items that are not worth a place in the Step
  // (StepScheduler::draft_items()). `held_up` is the number of requests whose target waits for the
  // Step.
  void leave_out_drafts(const StepQueue& queue, int64_t held_up,
                        std::vector<FinishedItem>& finished);
  // Removes guesses that are not worth their rows (GuessRows) from the verifications in the queue.
  // `decoding` is the number of the role's decoding sequences, queued or not.
  void leave_out_guesses(const StepQueue& queue, int32_t decoding);

 private:
  const StepScheduler& scheduler_;
  ItemFinisher& finisher_;
  GuessRows guesses_;
  std::vector<DraftOffer> offers_;  // scratch
};

}  // namespace forerun
