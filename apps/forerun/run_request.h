// Runs one request to its end; collects its output and streams it on the way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::app {

struct Completion {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<std::vector<TokenLogprob>> logprobs;  // of each token, where they were asked for
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;  // likewise, from its second token on
  FinishReason reason = FinishReason::kStop;
  RequestStats stats;
};

// Calls `on_accepted` once the engine has accepted the request, and `on_event` for every event as
// it comes. Ctrl-C (InterruptGuard) cancels the request.
Result<Completion> run_request(
    Engine& engine, Request request, const std::function<void(const Event&)>& on_event,
    const std::function<void()>& on_accepted = [] {});

// One line with tokens, tokens/s, acceptance rate and tokens a target Step.
std::string describe(const RequestStats& stats);

// One line with a line break: the machine of --emulate, and how many Steps were late. Empty without
// emulation.
std::string describe_emulation(const Engine& engine);

// The result of --compare, which decodes the request plainly, too. A text that took less than two
// seconds is timed twice each way, in turn, and the faster runs count, since printing the text and
// touching memory for the first time would distort the times.
struct Comparison {
  Completion speculative;
  Completion plain;
  bool identical = true;  // whether all runs that came to their end have the same tokens
};
Result<Comparison> compare_with_plain(Engine& engine, Request request, const Completion& shown);

// The comparison as a table, and whether the tokens are the same; if `options` let them differ,
// why.
std::string describe(const Comparison& comparison, const SpeculationOptions& options);

}  // namespace forerun::app
