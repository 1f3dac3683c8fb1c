// The scheduler of a Step: it decides how many guesses a Step verifies, and how many rows of
// waiting prompts it takes beside the decoding rows.
//
// A Step is composed of decoding rows first. Then come guesses of any requests, as many as make the
// requests fastest by the present costs. The cost of a row depends on the number of rows, since it
// jumps where a kernel's next tile or another pass over the weights begins, and only the scheduler
// knows the rows of all requests. Then prompt rows fill the Step up to its time budget. This is
// chunked prefill with a budget of time in place of tokens, because a prompt's row costs more with
// a longer context, and hundreds of times more on a CPU than on a GPU.
//
// All functions are pure; only one thread at a time may call an object.
#pragma once

#include <cstdint>
#include <span>

#include "exec/live_costs.h"
#include "step/step_load.h"
#include "step/types.h"

namespace forerun {

struct StepBudget {
  int32_t rows = 512;  // largest number of rows per Step
  // Time limit in seconds of a Step with prompt rows. With 0 it follows from the decoding rows and
  // the number of waiting prompts (kDecodeStretch, kCrowdSeconds), or is kIdleSeconds if nothing
  // decodes.
  double seconds = 0.0;
};

// An item of the draft that is optional (WorkItem::gain).
struct DraftOffer {
  float gain = 0.0f;
  int32_t rows = 0;
  int32_t context = 0;  // tokens before them
  size_t number = 0;    // the caller's number of the item
};

class StepScheduler {
 public:
  // The factor by which prompt rows may lengthen a decoding Step. If few prompts wait beside many
  // decoding requests, this keeps the time between two tokens below twice its value without
  // prompts.
  static constexpr double kDecodeStretch = 1.8;
  // Waiting prompts are a crowd if there is more than one for every kDecodingAPrompt decoding
  // requests.
  static constexpr int32_t kDecodingAPrompt = 8;
  // Time limit of a Step while a crowd waits: prompts then go in pieces as large as the Step's row
  // limit. Small pieces would delay the first tokens of all later prompts and take many more
  // forward passes while few requests decode beside them, which makes each token expensive.
  static constexpr double kCrowdSeconds = 0.75;
  // Time limit of a Step without decoding: new requests and cancellations wait for its end.
  static constexpr double kIdleSeconds = 0.25;
  // Fewer prompt rows do not pay off, since they too read all weights; a Step's first prompt gets
  // this many, whatever they cost.
  static constexpr int32_t kMinPromptRows = 16;

  // `costs` may be null or know nothing of the role: then a Step takes prompt rows up to the
  // budget's rows. It must outlive the object.
  StepScheduler(Role role, const StepBudget& budget, const LiveCosts* costs)
      : role_(role), budget_(budget), costs_(costs) {}

  int32_t row_budget() const { return budget_.rows; }

  // Returns how many guesses a Step takes beside `load`, the rows that it has in any case. `gains`
  // are their gains in the sum of the logarithms of the requests' speeds (GuessRows), descending.
  // `held_up` is the number of requests that wait for the Step to end, including its own.
  int32_t verification_rows(const StepLoad& load, std::span<const float> gains,
                            int64_t held_up) const;

  // Returns the most rows of a Step that lasts little longer (kNearlyFree) than one of `rows` rows;
  // the row budget if costs are not known.
  int32_t nearly_free_rows(int32_t rows) const;

  // Returns how many of the draft's `offers`, sorted by descending gain, a draft Step takes beside
  // `load`, the rows that it has in any case. The number maximizes the sum of the logarithms of all
  // requests' speeds; it is 0 if the gain is negligible. `held_up` is the number of requests whose
  // target waits for the Step to end.
  size_t draft_items(const StepLoad& load, std::span<const DraftOffer> offers,
                     int64_t held_up) const;

  // Returns the time limit in seconds for a Step that adds rows of `prompts` waiting prompts to
  // `load`, the decoding rows. `decoding` is the number of sequences that decode, in this Step or
  // in the next one, including those of the other role that wait for this Step.
  double budget_seconds(const StepLoad& load, int64_t prompts, int64_t decoding) const;

  // Returns how many of a prompt's next `left` rows, which follow `context` tokens, fit into a Step
  // with this budget that already holds `load`, within the row budget. `first` says that the Step
  // has no prompt rows yet, and takes some whatever their time. 0 means that the Step is full.
  int32_t prompt_rows(const StepLoad& load, int32_t context, int32_t left, double budget_seconds,
                      bool first) const;

 private:
  bool knows_costs() const {
    return costs_ != nullptr && costs_->seconds(role_, {.rows = 1}) > 0.0;
  }

  const Role role_;
  const StepBudget budget_;
  const LiveCosts* costs_;
};

}  // namespace forerun
