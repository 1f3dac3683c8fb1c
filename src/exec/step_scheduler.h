// Decides how many guesses are verified in a Step, and how much of the prompts that wait goes into
// it beside what decodes.
//
// A Step is composed of decoding rows first. Then rows of guesses, whoever's they are, as many as
// make the requests fastest by the costs known at present: what a row costs depends on how many
// there are, in steps where a kernel's next tile or another pass over the weights begins, and only
// here are all of them known. Then prompt rows as fill, as many as keep the Step within its time
// budget (chunked prefill with a budget of time in place of tokens: a row of a prompt costs more
// the longer its context, and on a processor hundreds of times more than on a GPU).
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
  int32_t rows = 512;  // that a Step takes at most
  // Seconds that a Step with prompt rows may take; 0: by what decodes and how many prompts wait
  // (kDecodeStretch, kCrowdSeconds), and kIdleSeconds where nothing decodes.
  double seconds = 0.0;
};

// An item of the draft that need not run (WorkItem::gain).
struct DraftOffer {
  float gain = 0.0f;
  int32_t rows = 0;
  int32_t context = 0;  // tokens before them
  size_t turn = 0;      // the caller's own
};

class StepScheduler {
 public:
  // How much longer prompts may make a decoding Step. Where few prompts wait beside many requests
  // that decode, the time between two tokens so stays within twice of what it is without them.
  static constexpr double kDecodeStretch = 1.8;
  // More than one prompt that waits for so many that decode is a crowd.
  static constexpr int32_t kDecodingAPrompt = 8;
  // A Step while a crowd waits: its prompts go first, in pieces as large as the Step takes rows. A
  // prompt in small pieces holds up the first tokens of all that wait behind it, and is read in
  // many times the passes; and who decodes meanwhile decodes among few, where a token costs most.
  static constexpr double kCrowdSeconds = 0.75;
  // Where nothing decodes: new requests and cancellations wait for the Step in flight.
  static constexpr double kIdleSeconds = 0.25;
  // Fewer prompt rows than this are no use: the weights are read for them all the same. A Step
  // takes so many however long they last.
  static constexpr int32_t kLeastPromptRows = 16;

  // `costs` may be null, or know nothing of the role: then a Step takes a prompt's rows up to the
  // budget's. It must outlive the object.
  StepScheduler(Role role, const StepBudget& budget, const LiveCosts* costs)
      : role_(role), budget_(budget), costs_(costs) {}

  int32_t row_budget() const { return budget_.rows; }

  // How many rows of guesses a Step takes beside `load`, the rows that it has in any case. `gains`:
  // what each adds to the sum of the logarithms of the requests' speeds (GuessRows), descending.
  // `held_up`: requests whose next token waits for the Step to end, its own included.
  int32_t verification_rows(const StepLoad& load, std::span<const float> gains,
                            int64_t held_up) const;

  // The most rows of a Step that lasts little longer (kNearlyFree) than one of `rows`; where costs
  // are not known, as many as a Step takes.
  int32_t nearly_free_rows(int32_t rows) const;

  // How many of the draft's `offers`, of descending gain, a Step of the draft takes beside `load`,
  // the rows that it has in any case. `held_up`: requests whose target waits for the Step to end.
  // As many as make the sum of the logarithms of all requests' speeds largest; none where that
  // brings next to nothing.
  size_t draft_items(const StepLoad& load, std::span<const DraftOffer> offers,
                     int64_t held_up) const;

  // Seconds that a Step may last when rows of `prompts` prompts that wait are added to `load`, the
  // rows that decode. `decoding`: sequences that decode, in this Step or in the next one, those of
  // the other role that wait for this Step among them.
  double budget_seconds(const StepLoad& load, int64_t prompts, int64_t decoding) const;

  // How many of the next `left` rows of a prompt, which follow `context` tokens, go into a Step of
  // this budget that holds `load`, of no more rows than there may be. `first`: it holds no prompt's
  // rows yet, and takes some however long they last. 0: none, the Step is full.
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
