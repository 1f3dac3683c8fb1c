// A request to an engine.
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
  // The prompt as text, to which the tokenizer's post-processor is applied (it may add BOS). If
  // prompt_tokens is not empty, the prompt is these tokens, unchanged.
  std::string prompt;
  std::vector<int32_t> prompt_tokens;
  bool add_special_tokens = true;  // false: the chat template has added them already

  // The output of an earlier run of this request that was interrupted, for example by the loss of a
  // machine. It counts as output, not as prompt. Penalties, lengths, stop strings and positions
  // continue after it; with the same seed, text and rule "match", so do the tokens. Events do not
  // repeat it, neither as tokens nor as text. If it was already complete, one event says so.
  std::vector<int32_t> resume_tokens;

  SamplingOptions sampling;
  // Cannot be combined with ignore_eos, nor with stages of the target in other processes.
  OutputFormat output_format;
  // The number of continuations of the prompt, which share its KV and have different seeds
  // (sample_seed). Event::sample_idx says which sample an event belongs to. 1 to 128; 1 with
  // resume_tokens.
  int32_t num_samples = 1;
  // The largest number of tokens of each sample's output, resume_tokens included. 0: the engine
  // reads the prompt, scores it if asked to, and generates no token.
  int32_t max_new_tokens = 256;
  // The smallest number of tokens of the output: end tokens before that are not sampled, and stop
  // strings count only in the text after these tokens. At most max_new_tokens. Cannot be combined
  // with an output format.
  int32_t min_new_tokens = 0;
  // The output ends before the first of these texts: up to 64 texts of up to 4096 bytes.
  std::vector<std::string> stop;
  bool keep_stop = false;            // includes that text in the output
  std::vector<int32_t> stop_tokens;  // end tokens besides the checkpoint's own
  bool ignore_eos = false;
  bool skip_special_tokens = true;        // leaves the names of special tokens out of the text
  std::chrono::milliseconds deadline{0};  // 0: none; counts from submission
  // Requests of a higher priority are admitted and served first; among equals, earlier ones first.
  // A request for which there is no place or no KV memory preempts a running request of a lower
  // priority, which continues later. Waiting raises the priority
  // (EngineOptions::priority_ageing_s). Never changes a token.
  int32_t priority = 0;

  // Overrides the engine's own options. Requests with different strategies run concurrently.
  std::optional<SpeculationOptions> speculation;
  bool record_rounds = false;  // fills Event::rounds
  // False: the request neither uses the KV of other requests nor shares its own.
  bool share_prefix = true;
  // Only requests with the same salt share KV, so that response times reveal nothing about prompts
  // of requests with another salt. Never changes a token.
  std::string cache_salt;
};

}  // namespace forerun
