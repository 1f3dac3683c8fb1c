// What a reader is told of a request.
//
// Plain data, the reader's own: nothing in it points into the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/guess_origin.h"
#include "forerun/status.h"

namespace forerun {

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // natural, of the unprocessed distribution
};

// One verification of drafted tokens as it happened.
struct SpeculationRound {
  struct Node {
    int32_t token = 0;
    int32_t parent = -1;  // index in nodes; node 0 is the last verified token
    float logprob = 0.0f;
    bool accepted = false;
    GuessOrigin origin = GuessOrigin::kModel;  // of node 0 nobody's
  };
  std::vector<Node> nodes;
  int32_t bonus = -1;  // the token that the target drew after the last accepted node
};

struct RequestStats {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;   // Request::resume_tokens included
  int32_t resumed_tokens = 0;  // of them, those, and what launches that were lost had put out
  uint64_t seed = 0;           // that its tokens were drawn with
  // Prompt tokens (and, after a preemption, output) whose KV was there already: not computed again.
  int32_t reused_tokens = 0;
  int32_t draft_reused_tokens = 0;
  int64_t target_steps = 0;  // after the prefill
  int64_t draft_steps = 0;
  // Mean time of a Step of either model that this request had a part in, the ones that read the
  // prompt aside; 0: there was none.
  double target_step_s = 0.0;
  double draft_step_s = 0.0;
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  int32_t preemptions = 0;  // times it was set aside for lack of KV memory and started again
  double time_to_first_token_s = 0.0;  // from submission
  double decode_s = 0.0;               // from the first token to the last
  std::string strategy;                // the last one
  int32_t strategy_changes = 0;        // asked for by its reader, or by the load under "auto"
  // Output tokens but the first, a second, after the first.
  double tokens_per_s() const {
    return decode_s > 0 ? (output_tokens - resumed_tokens - 1) / decode_s : 0.0;
  }
  // The first token comes from the prefill.
  double tokens_per_step() const {
    return target_steps > 0 ? static_cast<double>(output_tokens - resumed_tokens - 1) /
                                  static_cast<double>(target_steps)
                            : 0.0;
  }
  double acceptance() const {
    return drafted_tokens > 0
               ? static_cast<double>(accepted_tokens) / static_cast<double>(drafted_tokens)
               : 0.0;
  }
};

// What came out of a request since its last event. A reader that falls behind finds one larger
// event rather than more of them.
struct Event {
  int32_t sample_idx = 0;  // of Request::num_samples
  // Whole UTF-8 characters, no part of a stop string.
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<bool> drafted;  // per token: it had been guessed
  // Seconds from the request's submission to the last of `tokens`, by the engine's clock.
  double time_s = 0.0;
  // SamplingParams::logprobs >= 0: per token the chosen one first, then the alternatives.
  std::vector<std::vector<TokenLogprob>> logprobs;
  // SamplingParams::prompt_logprobs >= 0: the same of the prompt's tokens from the second on, all
  // of them in the event that comes first of the sample.
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;
  std::vector<SpeculationRound> rounds;

  // Set on a sample's last event.
  bool finished = false;
  // Set on the request's last event: every sample has finished.
  bool last = false;
  FinishReason reason = FinishReason::kStop;
  // kStop: which of the request's own stops it was, a text of Request::stop or a token of
  // Request::stop_tokens. Neither is set where an end token of the checkpoint ended the output.
  std::string stop_text;
  int32_t stop_token = -1;
  Status error;  // kError
  RequestStats stats;
};

}  // namespace forerun
