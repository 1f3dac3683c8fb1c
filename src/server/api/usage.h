// The token usage of a call, summed over its prompts and samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "forerun/event.h"
#include "server/json_fwd.h"

namespace forerun::server {

class Usage {
 public:
  // Adds a sample that has ended.
  void add(const Event& last_of_sample);
  // Returns OpenAI's "usage", with statistics of speculation as an extension.
  Json json() const;
  // Returns the usage so far, while a choice is still being written.
  static Json so_far(size_t prompt_tokens, int64_t output_tokens);

  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t output_tokens() const { return output_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  Json speculation() const;

 private:
  int64_t prompt_tokens_ = 0;  // each prompt counts once, for any number of samples
  int64_t cached_tokens_ = 0;
  int64_t output_tokens_ = 0;
  int64_t target_steps_ = 0;
  int64_t draft_steps_ = 0;
  double target_busy_s_ = 0.0;  // sum of target Steps times their mean duration
  double draft_busy_s_ = 0.0;
  int64_t drafted_tokens_ = 0;
  int64_t accepted_tokens_ = 0;
  int64_t decoded_tokens_ = 0;  // all tokens but the first of each sample
  double first_token_s_ = 0.0;
  double decode_s_ = 0.0;  // decoding time of the longest sample
  std::string strategy_;
};

}  // namespace forerun::server
