// A request's result as JSON, for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forerun/engine.h"
#include "run_request.h"

namespace forerun::app {

// Returns why the request ended, its seed and strategy, counts, speeds and times, without text and
// tokens.
nlohmann::ordered_json facts_json(FinishReason reason, const RequestStats& stats);

// Returns a list for each token of {"token", "text", "logprob"}, the chosen token first.
nlohmann::ordered_json logprobs_json(const Engine& engine,
                                     const std::vector<std::vector<TokenLogprob>>& logprobs);

// Returns "text", "tokens", the fields of facts_json(), and "logprobs" and "prompt_logprobs" if
// there are any.
nlohmann::ordered_json completion_json(const Engine& engine, const Completion& completion);

// Returns how well Steps kept to the emulated machine's profile; null without emulation.
nlohmann::ordered_json emulation_json(const Engine& engine);

}  // namespace forerun::app
