// Predicts the speed of speculation for a batch from the costs of Steps (MagicDec, equations 1 to
// 4; the paper's names in brackets). Pure; all times in seconds.
//
// A round of B sequences with S tokens of context each has gamma draft Steps of one row a sequence,
// which see K tokens of the KV cache, then one verification of gamma + 1 rows a sequence, which see
// all S tokens. In a hierarchy the draft Steps are fewer and have several rows. Every sequence
// keeps the draft tokens up to the first wrong one, and one token that the verification itself
// gives.
#pragma once

#include <cstdint>

#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// The load that a decision is made for.
struct BatchLoad {
  int32_t sequences = 1;       // B
  int64_t context_tokens = 0;  // S, the tokens of each sequence
  // Tokens for which the KV cache has room: views with memory of their own can take so many.
  int64_t free_tokens = INT64_MAX;
};

// Cheap guesses that one draft Step checks together (a hierarchy). The guesses up to the first one
// that the draft rejects become draft tokens, and so does the draft's own token after them.
struct GuessOption {
  int32_t guesses = 0;        // guesses for each draft Step; 0: no hierarchy
  bool by_model = false;      // the draft model makes them, a Step each; false: they are from the
                              // text, at no cost
  int64_t budget_tokens = 0;  // tokens of its KV cache that the draft model sees; 0: all of it
  double acceptance = 0.0;    // rate at which the draft accepts them, in [0, 1]
};

// Where a round's draft tokens come from.
struct DraftOption {
  Role model = Role::kTarget;  // the target itself, or the draft model
  // A draft row sees at most so many tokens of the KV cache (K); 0: all of it.
  int64_t budget_tokens = 0;
  // Tokens beside these that it sees on average: text that has come since a view chose.
  int64_t grown_tokens = 0;
  // What each draft Step reads to choose these tokens, as a share of reading all S tokens: 0 if
  // they are chosen once or by position (SnapKV, StreamingLLM), a half if every key is scored
  // (TopK).
  double selection_share = 0.0;
  GuessOption checks = {};
};

// The times of a round. None is negative.
struct RoundSeconds {
  double plain = 0.0;      // a Step of plain decoding [T_T(B, S)]
  double draft = 0.0;      // a draft Step [T_D(B, K)]
  double guesses = 0.0;    // to make the guesses that a draft Step checks
  double drafted = 1.0;    // not a time: the draft tokens that one draft Step brings on average
  double selection = 0.0;  // to choose the tokens of a draft Step's view [T_select(B, S, K)]
  double verify = 0.0;     // gamma + 1 rows a sequence [T_V(B, S, gamma)]
  double overhead = 0.0;   // what a round takes beside its Steps
};

// The expected tokens of a round for each sequence [Omega(gamma, alpha), equation 1]: 1 to
// gamma + 1. `acceptance`, alpha in [0, 1], is the chance that a draft token is right, given that
// those before it were.
double tokens_per_round(int32_t gamma, double acceptance);
// The acceptance rate that gives so many tokens a round; 0 or 1 if none does. gamma >= 1.
double acceptance_of(int32_t gamma, double tokens_per_round);

// The expected draft Steps until `gamma` draft tokens are there, where each brings the first of its
// `guesses` up to one that the draft rejects, and a token of the draft's own; `acceptance`, in
// [0, 1], by the draft. What the last Step brings beyond `gamma` is lost. gamma without guesses.
double expected_checks(int32_t gamma, int32_t guesses, double acceptance);

// Seconds of a Step of plain decoding, by the cost model StepCosts. Here and below `costs` must
// have entries for the models asked for.
double plain_step_seconds(const StepCosts& costs, const BatchLoad& load);
double verify_step_seconds(const StepCosts& costs, const BatchLoad& load, int32_t gamma);
// Seconds of a draft Step, which has one more row for each guess that it checks.
double draft_step_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double guesses_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double selection_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
// Seconds that a Step takes more if it also reads all of the batch's KV cache `times` times.
double kv_read_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                       double times);
// All times of a round, gamma >= 1; `overhead` is copied to the result.
RoundSeconds round_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                           int32_t gamma, double overhead = 0.0);

// Seconds of a whole round [T_Total, equations 2 and 3]: gamma / `drafted` draft Steps, at least
// one, and a verification.
double total_seconds(const RoundSeconds& times, int32_t gamma);
// Seconds between two tokens of a sequence [T_Avg].
double seconds_per_token(const RoundSeconds& times, int32_t gamma, double tokens_per_round);
// The speed-up over plain decoding: the inverse of the ratio that equation 4 minimises.
double predicted_speedup(const RoundSeconds& times, int32_t gamma, double tokens_per_round);

}  // namespace forerun
