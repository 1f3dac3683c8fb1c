// Decides how many guesses a Step verifies, and how many rows of waiting prompts it takes beside
// the decoding rows.
//
// A Step is composed of decoding rows first. Then come rows of guesses, of any requests, as many as
// make the requests fastest by the present costs. What a row costs depends on how many rows there
// are, since cost jumps where a kernel's next tile or another pass over the weights begins, and
// only the scheduler knows the rows of all requests. Then prompt rows fill the Step, as many as
// keep it within its time budget. This is chunked prefill with a budget of time in place of tokens,
// because a prompt's row costs more the longer its context, and hundreds of times more on a
// processor than on a GPU.
//
// Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "exec/live_costs.h"
#include "step/step_load.h"
#include "step/types.h"

namespace forerun {

struct StepBudget {
  int32_t rows = 512;  // the most rows of a Step
  // Seconds that a Step with prompt rows may take; 0: follows from the decoding rows and the number
  // of waiting prompts (kDecodeStretch, kCrowdSeconds), kIdleSeconds where nothing decodes.
  double seconds = 0.0;
};

// An item of the draft that need not run (WorkItem::gain).
struct DraftOffer {
  float gain = 0.0f;
  int32_t rows = 0;
  int32_t context = 0;  // tokens before them
  size_t number = 0;    // the caller's number for it
};

class StepScheduler {
 public:
  // The factor by which prompt rows may lengthen a decoding Step. Where few prompts wait beside
  // many decoding requests, this keeps the time between two tokens below twice what it is without
  // prompts.
  static constexpr double kDecodeStretch = 1.8;
  // Prompts that wait are a crowd if there is more than one for every kDecodingAPrompt requests
  // that decode.
  static constexpr int32_t kDecodingAPrompt = 8;
  // Seconds of a Step while a crowd waits: prompts then go in pieces as large as the Step has rows.
  // A prompt in small pieces would delay the first tokens of all prompts behind it and take many
  // more forwards, while few requests decode beside it, so that each token costs most.
  static constexpr double kCrowdSeconds = 0.75;
  // Seconds of a Step in which nothing decodes: new requests and cancellations wait for its end.
  static constexpr double kIdleSeconds = 0.25;
  // Fewer prompt rows than this do not pay, since they too need all weights to be read. A Step
  // takes this many however long they last.
  static constexpr int32_t kMinPromptRows = 16;

  // `costs` may be null or know nothing of the role: then a Step takes prompt rows up to the
  // budget's rows. It must outlive the object.
  StepScheduler(Role role, const StepBudget& budget, const LiveCosts* costs)
      : role_(role), budget_(budget), costs_(costs) {}

  int32_t row_budget() const { return budget_.rows; }

  // How many rows of guesses a Step takes beside `load`, the rows that it has in any case. `gains`:
  // what each adds to the sum of the logarithms of the requests' speeds (GuessRows), descending.
  // `held_up`: requests whose next token waits for the Step to end, its own included.
  int32_t verification_rows(const StepLoad& load, std::span<const float> gains,
                            int64_t held_up) const;

  // The most rows of a Step that lasts little longer (kNearlyFree) than one of `rows` rows; where
  // costs are not known, the row budget.
  int32_t nearly_free_rows(int32_t rows) const;

  // How many of the draft's `offers`, sorted by descending gain, a Step of the draft takes beside
  // `load`, the rows that it has in any case: as many as maximize the sum of the logarithms of all
  // requests' speeds, none where that gains next to nothing. `held_up`: requests whose target waits
  // for the Step to end.
  size_t draft_items(const StepLoad& load, std::span<const DraftOffer> offers,
                     int64_t held_up) const;

  // Seconds that a Step may last when rows of `prompts` prompts that wait are added to `load`, the
  // rows that decode. `decoding`: sequences that decode, in this Step or in the next one, those of
  // the other role that wait for this Step among them.
  double budget_seconds(const StepLoad& load, int64_t prompts, int64_t decoding) const;

  // How many of the next `left` rows of a prompt, which follow `context` tokens, go into a Step of
  // this budget that already holds `load`, within the row budget. `first`: the Step has no prompt
  // rows yet, and takes some however long they last. 0: the Step is full.
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
