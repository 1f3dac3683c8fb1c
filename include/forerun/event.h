// The events of a request, which its reader receives.
//
// Plain data that the reader owns: nothing in it points into the engine.
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

// A record of one verification of draft tokens.
struct SpeculationRound {
  struct Node {
    int32_t token = 0;
    int32_t parent = -1;  // index in nodes; node 0 is the last verified token
    float logprob = 0.0f;
    bool accepted = false;
    GuessOrigin origin = GuessOrigin::kModel;  // has no meaning for node 0
  };
  std::vector<Node> nodes;
  int32_t bonus = -1;  // the token that the target drew after the last accepted node
};

struct RequestStats {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;   // Request::resume_tokens included
  int32_t resumed_tokens = 0;  // resume_tokens and the tokens of launches that were lost
  uint64_t seed = 0;           // the seed that its tokens were drawn with
  // Prompt tokens (and, after a preemption, output tokens) whose KV was reused, not computed.
  int32_t reused_tokens = 0;
  int32_t draft_reused_tokens = 0;
  int64_t target_steps = 0;  // Steps after the prefill
  int64_t draft_steps = 0;
  // Mean time of a Step of either model in which this request took part, without Steps that read
  // its prompt; 0: no such Step.
  double target_step_s = 0.0;
  double draft_step_s = 0.0;
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  // Number of times the request lost its KV blocks for lack of memory and started again.
  int32_t preemptions = 0;
  double time_to_first_token_s = 0.0;  // time from submission
  double decode_s = 0.0;               // time from the first token to the last
  std::string strategy;                // the strategy in use at the end
  // Changes by change_speculation(), or by "auto" because of the load.
  int32_t strategy_changes = 0;
  // Returns output tokens per second after the first token, which does not count.
  double tokens_per_s() const {
    return decode_s > 0 ? (output_tokens - resumed_tokens - 1) / decode_s : 0.0;
  }
  // Returns output tokens per target Step, without the first token, which comes from the prefill.
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

// The output of a request since its last event. If a reader falls behind, its unread events are
// merged into one.
struct Event {
  int32_t sample_idx = 0;  // index among Request::num_samples
  // Consists of whole UTF-8 characters and contains no part of a stop string.
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<bool> drafted;  // per token: whether it was a draft token
  // Seconds from the request's submission to the last of `tokens`, by the engine's clock.
  double time_s = 0.0;
  // Set if SamplingParams::logprobs >= 0. Per token, the chosen token first, then the alternatives.
  std::vector<std::vector<TokenLogprob>> logprobs;
  // Set if SamplingParams::prompt_logprobs >= 0: the same for the prompt's tokens from the second
  // on. The sample's first event has all of them.
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;
  std::vector<SpeculationRound> rounds;

  // Set on a sample's last event.
  bool finished = false;
  // Set on the request's last event: every sample has finished.
  bool last = false;
  FinishReason reason = FinishReason::kStop;
  // The text of Request::stop or the token of Request::stop_tokens that ended the output (kStop).
  // Neither is set if an end token of the checkpoint ended it.
  std::string stop_text;
  int32_t stop_token = -1;
  Status error;  // kError
  RequestStats stats;
};

}  // namespace forerun
