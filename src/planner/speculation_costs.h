// What speculation promises a batch, from what Steps cost (MagicDec, equations 1 to 4; the paper's
// names in brackets). Pure; all times in seconds.
//
// A round of B sequences behind S tokens of context each: gamma draft Steps of one row a sequence
// (fewer of several rows where they check guesses), which see K tokens of the cache, then one
// verification of gamma + 1 rows a sequence, which see
// all S. Every sequence keeps the guesses up to the first wrong one and one token of the
// verification's own.
#pragma once

#include <cstdint>

#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// What a decision is made for.
struct BatchLoad {
  int32_t sequences = 1;       // B
  int64_t context_tokens = 0;  // S, of each
  // Free tokens of the KV cache: views with memory of their own can get as many.
  int64_t free_tokens = INT64_MAX;
};

// Cheap guesses that a draft Step checks, all of them at once (a hierarchy): those up to the first
// one that the draft does not share are drafted, and a token of its own.
struct GuessOption {
  int32_t guesses = 0;    // a draft Step; 0: the draft is on its own
  bool by_model = false;  // of the draft model, a Step each; else of the text so far, for nothing
  int64_t budget_tokens = 0;  // that the draft model sees of its cache; 0 is all of it
  double acceptance = 0.0;    // by the draft, in [0, 1]
};

// Where a round's guesses come from.
struct DraftOption {
  Role model = Role::kTarget;  // the target itself, or the draft model
  // What a draft row sees of the cache: at most so many tokens (K); 0 is all of it.
  int64_t budget_tokens = 0;
  // Reading that choosing those tokens takes at each draft Step, as a share of reading all S: 0
  // where they are chosen once or by their place (SnapKV, StreamingLLM), a half where every key is
  // scored (TopK).
  double selection_share = 0.0;
  GuessOption checks = {};
};

// The times of a round. None is negative.
struct RoundSeconds {
  double plain = 0.0;      // a Step of plain decoding [T_T(B, S)]
  double draft = 0.0;      // a draft Step [T_D(B, K)]
  double guesses = 0.0;    // that a draft Step checks
  double drafted = 1.0;    // tokens that a draft Step brings: no time, but how often it takes one
  double selection = 0.0;  // of the draft's tokens, a draft Step [T_select(B, S, K)]
  double verify = 0.0;     // gamma + 1 rows a sequence [T_V(B, S, gamma)]
  double overhead = 0.0;   // a round, beside its Steps
};

// Tokens that a round brings each sequence [Omega(gamma, alpha), equation 1]: 1 to gamma + 1.
// `acceptance`, alpha in [0, 1], is the chance that a guess is right given that those before it
// were.
double tokens_per_round(int32_t gamma, double acceptance);
// The acceptance that gives so many tokens a round; 0 or 1 where none does. gamma >= 1.
double acceptance_of(int32_t gamma, double tokens_per_round);

// From the one cost model, which holds what the Steps read and compute with. `costs` has entries
// for the models asked for.
double plain_step_seconds(const StepCosts& costs, const BatchLoad& load);
double verify_step_seconds(const StepCosts& costs, const BatchLoad& load, int32_t gamma);
// With a row for each guess that it checks.
double draft_step_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double guesses_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
double selection_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft);
// All of them, gamma >= 1; `overhead` is passed through.
RoundSeconds round_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                           int32_t gamma, double overhead = 0.0);

// A whole round [T_Total, equations 2 and 3]: gamma over `drafted` draft Steps, one at least, and a
// verification.
double total_seconds(const RoundSeconds& times, int32_t gamma);
// Between two tokens of a sequence [T_Avg].
double seconds_per_token(const RoundSeconds& times, int32_t gamma, double tokens_per_round);
// Over plain decoding: the inverse of what equation 4 minimises.
double predicted_speedup(const RoundSeconds& times, int32_t gamma, double tokens_per_round);

}  // namespace forerun
