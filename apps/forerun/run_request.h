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
  FinishReason reason = FinishReason::kStop;
  RequestStats stats;
};

// `on_event` sees every event as it comes. Ctrl-C (InterruptGuard) cancels the request.
Result<Completion> run_request(Engine& engine, Request request,
                               const std::function<void(const Event&)>& on_event);

// One line: tokens, tokens/s, acceptance, tokens a target step.
std::string describe(const RequestStats& stats);

// One line with a line break: what --emulate emulated, and how many Steps were late. Empty without.
std::string describe_emulation(const Engine& engine);

// The table of --compare, and whether the tokens are the same.
std::string compare(const Completion& speculative, const Completion& plain);

}  // namespace forerun::app
