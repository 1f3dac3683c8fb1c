// Runs one request to its end; collects its output and streams it meanwhile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::app {

struct Completion {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<std::vector<TokenLogprob>> logprobs;  // of each token, if requested
  // The same for each prompt token from the second on.
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;
  FinishReason reason = FinishReason::kStop;
  RequestStats stats;
};

// Calls `on_accepted` once the engine has accepted the request, and `on_event` for every event as
// it arrives. Ctrl-C (InterruptGuard) cancels the request.
Result<Completion> run_request(
    Engine& engine, Request request, const std::function<void(const Event&)>& on_event,
    const std::function<void()>& on_accepted = [] {});

// Returns one line with tokens, tokens/s, acceptance rate and tokens per target Step.
std::string describe(const RequestStats& stats);

// Returns one line with a line break: the machine of --emulate, and how many Steps were late. Empty
// without emulation.
std::string describe_emulation(const Engine& engine);

// The result of --compare, which also decodes the request plainly. A text that took less than two
// seconds is timed twice each way, in turn, and the faster runs count, since printing the text and
// touching memory for the first time would distort the times.
struct Comparison {
  Completion speculative;
  Completion plain;
  bool identical = true;  // whether all completed runs have the same tokens
};
Result<Comparison> compare_with_plain(Engine& engine, Request request, const Completion& shown);

// Returns the comparison as a table, and whether the tokens are the same; if `options` let them
// differ, also the reason.
std::string describe(const Comparison& comparison, const SpeculationOptions& options);

}  // namespace forerun::app
