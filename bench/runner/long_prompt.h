// Measures how a long prompt that arrives among decoding requests changes their time between
// tokens, and how soon it ends when it is cancelled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "runner/load.h"

namespace forerun::bench {

// One strategy at one temperature. Times between tokens are those of the decoding requests.
struct LongPromptRow {
  std::string strategy;
  float temperature = 0.0f;
  int requests = 0;  // number of decoding requests
  int32_t long_prompt_tokens = 0;
  Spread before_s;                          // all decode and no other request runs
  Spread during_s;                          // from the long prompt's submission to its first token
  Spread events_before_s, events_during_s;  // the same between events, which may have many tokens
  int64_t tokens_during = 0;
  double first_token_s = 0.0;  // time of the long prompt
  // Time of the same prompt, cancelled while it is being read: from cancel() to its last event.
  double cancel_s = 0.0;
};

// Uses the prompts, strategies, temperatures, sampling, max_new_tokens and requests (at least 1) of
// `options`. The requests must still decode when the long prompt has been read, otherwise the error
// advises to raise max_new_tokens. `long_prompt` has the prompt's tokens. Returns a row for each
// strategy and temperature; after a stop, only the complete ones.
Result<std::vector<LongPromptRow>> run_long_prompt(Engine& engine, const LoadOptions& options,
                                                   const std::vector<int32_t>& long_prompt);

// Returns the seconds that destroying the engine takes, weights included, `delay_s` after the
// submission of the long prompt, while it is read and other requests decode. Fails with kCancelled
// if it was stopped before.
Result<double> seconds_to_destroy(std::unique_ptr<Engine> engine, const LoadOptions& options,
                                  const std::vector<int32_t>& long_prompt, double delay_s);

// Returns the seconds between arrivals of `record` that overlap [from_s, to_s]. With `tokens`,
// tokens that arrive together add gaps of 0; otherwise only the times between arrivals count.
std::vector<double> gaps_within(const RequestRecord& record, double from_s, double to_s,
                                bool tokens);

}  // namespace forerun::bench
