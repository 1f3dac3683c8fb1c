// Runs one request to its end and collects what came out, streaming it on the way.
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

// `on_accepted` is called once the request has been found in order, `on_event` sees every event as
// it comes. Ctrl-C (InterruptGuard) cancels the request.
Result<Completion> run_request(
    Engine& engine, Request request, const std::function<void(const Event&)>& on_event,
    const std::function<void()>& on_accepted = [] {});

// One line: tokens, tokens/s, acceptance, tokens a target step.
std::string describe(const RequestStats& stats);

// One line with a line break: what --emulate emulated, and how many Steps were late. Empty without.
std::string describe_emulation(const Engine& engine);

// What --compare shows: the request decoded plainly beside what has been shown of it. A text that
// took less than two seconds is timed twice each way, in turn, since printing it and touching
// memory for the first time would tell; the faster runs stay.
struct Comparison {
  Completion speculative;
  Completion plain;
  bool identical = true;  // the tokens of all runs that came to their end
};
Result<Comparison> compare_with_plain(Engine& engine, Request request, const Completion& shown);

// Its table, and whether the tokens are the same; of those that `options` let differ, why.
std::string describe(const Comparison& comparison, const SpeculationOptions& options);

}  // namespace forerun::app
