// A request's result for scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forerun/engine.h"
#include "run_request.h"

namespace forerun::app {

// Why it ended, its seed and strategy, counts, speeds and times: neither text nor tokens.
nlohmann::ordered_json facts_json(FinishReason reason, const RequestStats& stats);

// Per token a list, the chosen one first: {"token", "text", "logprob"}.
nlohmann::ordered_json logprobs_json(const Engine& engine,
                                     const std::vector<std::vector<TokenLogprob>>& logprobs);

// "text", "tokens", the facts, "logprobs" and "prompt_logprobs" where there are any.
nlohmann::ordered_json completion_json(const Engine& engine, const Completion& completion);

// How an emulated machine kept to its profile; null without one.
nlohmann::ordered_json emulation_json(const Engine& engine);

}  // namespace forerun::app
