// Predicts the speed of speculation for a batch from the costs of Steps (MagicDec, equations 1 to
// 4; the paper's names in brackets). Pure; all times in seconds.
//
// A round of B sequences with S tokens of context each has gamma draft Steps of one row per
// sequence, which see K tokens of the KV cache, then one verification of gamma + 1 rows per
// sequence, which see all S tokens. In a hierarchy the draft Steps are fewer and have several rows.
// Every sequence keeps the draft tokens before the first rejected one, and one token of the
// verification itself.
#pragma once

#include <cstdint>

#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// The load that a decision is made for.
struct BatchLoad {
  int32_t sequences = 1;       // B
  int64_t context_tokens = 0;  // S, the tokens of each sequence
  // Tokens for which the KV cache has room; views with memory of their own may use them.
  int64_t free_tokens = INT64_MAX;
};

// Cheap guesses that one draft Step checks together (a hierarchy). The guesses before the first one
// that the draft rejects become draft tokens, and so does the draft's own token after them.
struct GuessOption {
  int32_t guesses = 0;        // guesses per draft Step; 0: no hierarchy
  bool by_model = false;      // the draft model makes them, one per Step; false: they come from the
                              // text, at no cost
  int64_t budget_tokens = 0;  // tokens of its KV cache that the draft model sees; 0: all
  double acceptance = 0.0;    // rate at which the draft accepts them, in [0, 1]
};

// The source of a round's draft tokens.
struct DraftOption {
  Role model = Role::kTarget;  // the target itself, or the draft model
  // The largest number of tokens of the KV cache that a draft row sees (K); 0: all of it.
  int64_t budget_tokens = 0;
  // The average number of additional tokens that it sees: text since the view's last selection.
  int64_t grown_tokens = 0;
  // The part of the KV that each draft Step reads to select these tokens, as a share of reading all
  // S tokens: 0 if they are selected once or by position (SnapKV, StreamingLLM), a half if every
  // key is scored (TopK).
  double selection_share = 0.0;
  GuessOption checks = {};
};

// The times of a round. None is negative.
struct RoundSeconds {
  double plain = 0.0;      // a Step of plain decoding [T_T(B, S)]
  double draft = 0.0;      // a draft Step [T_D(B, K)]
  double guesses = 0.0;    // time to make the guesses that a draft Step checks
  double drafted = 1.0;    // not a time: average number of draft tokens from one draft Step
  double selection = 0.0;  // time to select the tokens of a draft Step's view [T_select(B, S, K)]
  double verify = 0.0;     // gamma + 1 rows per sequence [T_V(B, S, gamma)]
  double overhead = 0.0;   // time of a round besides its Steps
};

// Returns the expected tokens of a round for each sequence [Omega(gamma, alpha), equation 1]: 1 to
// gamma + 1. `acceptance`, alpha in [0, 1], is the chance that a draft token is accepted, given
// that those before it were.
double tokens_per_round(int32_t gamma, double acceptance);
// Returns the acceptance rate that gives this number of tokens per round; 0 or 1 if none does.
// gamma >= 1.
double acceptance_of(int32_t gamma, double tokens_per_round);

// Returns the expected number of draft Steps for `gamma` draft tokens. Each Step gives the first of
// its `guesses` before one that the draft rejects, and a token of the draft's own; the draft
// accepts a guess with probability `acceptance`, in [0, 1]. Tokens beyond `gamma` are lost. Returns
// gamma without guesses.
double expected_checks(int32_t gamma, int32_t guesses, double acceptance);

// Returns the seconds of a Step of plain decoding, by the cost model StepCosts. Here and below
// `costs` must have entries for the models asked for.
double plain_step_seconds(const StepCosts& costs, const BatchLoad& load);
double verify_step_seconds(const StepCosts& costs, const BatchLoad& load, int32_t gamma);
// Returns the seconds of a draft Step, which has one more row for each guess that it checks.
double draft_step_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double guesses_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double selection_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
// Returns the additional seconds of a Step that also reads all of the batch's KV cache `times`
// times.
double kv_read_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                       double times);
// Returns all times of a round, gamma >= 1; `overhead` is copied to the result.
RoundSeconds round_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                           int32_t gamma, double overhead = 0.0);

// Returns the seconds of a whole round [T_Total, equations 2 and 3]: gamma / `drafted` draft Steps,
// at least one, and a verification.
double total_seconds(const RoundSeconds& times, int32_t gamma);
// Returns the seconds between two tokens of a sequence [T_Avg].
double seconds_per_token(const RoundSeconds& times, int32_t gamma, double tokens_per_round);
// Returns the speed-up over plain decoding: the inverse of the ratio that equation 4 minimises.
double predicted_speedup(const RoundSeconds& times, int32_t gamma, double tokens_per_round);

}  // namespace forerun
