// What is asked of an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/output_format.h"
#include "forerun/sampling_params.h"
#include "forerun/speculation_options.h"

namespace forerun {

struct Request {
  // The prompt as text, which passes the tokenizer's post-processor (BOS where it adds one), or, if
  // prompt_tokens is not empty, as tokens taken as they are.
  std::string prompt;
  std::vector<int32_t> prompt_tokens;
  bool add_special_tokens = true;  // false: a chat template has put them in already

  // What a run of this request that was cut had put out already (a machine was lost, say): output,
  // not prompt. Penalties, lengths, stop strings and positions go on behind it, and with the same
  // seed, text and rule "match" so does every token. None of it comes again, neither as token nor
  // as text. Where it had come to its end already, one event says so.
  std::vector<int32_t> resume_tokens;

  SamplingOptions sampling;
  // Not beside ignore_eos, nor where the target's stages are other processes.
  OutputFormat output_format;
  // So many continuations of the prompt, whose KV they share, each with a seed of its own
  // (sample_seed). Events say whose they are: Event::sample_idx. 1 to 128; 1 with resume_tokens.
  int32_t num_samples = 1;
  // Tokens of each sample's output, resume_tokens included. 0: the prompt is read, and scored if
  // that is asked for, but no token is generated.
  int32_t max_new_tokens = 256;
  // Output does not end by itself before so many: what would end it is not drawn, stop strings are
  // looked for in the text behind them. At most max_new_tokens; not beside an output format.
  int32_t min_new_tokens = 0;
  // Output ends before the first of these: up to 64 texts of up to 4096 bytes.
  std::vector<std::string> stop;
  bool keep_stop = false;            // output ends behind that text instead
  std::vector<int32_t> stop_tokens;  // beside the checkpoint's end tokens
  bool ignore_eos = false;
  bool skip_special_tokens = true;        // in the text
  std::chrono::milliseconds deadline{0};  // 0: none; counts from submission
  // Requests of a higher priority are admitted and served first; among equals, those that came
  // first. A request that finds no place or no KV memory takes those of a running request of a
  // lower priority, which goes on later. Waiting raises a priority
  // (EngineOptions::priority_ageing_s). Never changes a token.
  int32_t priority = 0;

  // Instead of the engine's own: requests with different strategies run concurrently.
  std::optional<SpeculationOptions> speculation;
  bool record_rounds = false;  // fill Event::rounds
  bool share_prefix = true;    // false: neither takes KV of other requests nor offers its own
  // KV is shared among requests of one salt only, so that its time tells nothing about the prompts
  // of those with another. Never changes a token.
  std::string cache_salt;
};

}  // namespace forerun
