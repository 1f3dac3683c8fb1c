#include "completion_json.h"

#include <nlohmann/json.hpp>

namespace forerun::app {

using nlohmann::ordered_json;

ordered_json facts_json(FinishReason reason, const RequestStats& stats) {
  return {{"finish_reason", finish_reason_name(reason)},
          {"prompt_tokens", stats.prompt_tokens},
          {"seed", stats.seed},
          {"strategy", stats.strategy},
          {"tokens_per_s", stats.tokens_per_s()},
          {"tokens_per_step", stats.tokens_per_step()},
          {"acceptance", stats.acceptance()},
          {"drafted_tokens", stats.drafted_tokens},
          {"accepted_tokens", stats.accepted_tokens},
          {"target_steps", stats.target_steps},
          {"draft_steps", stats.draft_steps},
          {"target_step_ms", 1000.0 * stats.target_step_s},
          {"draft_step_ms", 1000.0 * stats.draft_step_s},
          {"preemptions", stats.preemptions},
          {"reused_tokens", stats.reused_tokens},
          {"draft_reused_tokens", stats.draft_reused_tokens},
          {"time_to_first_token_ms", 1000.0 * stats.time_to_first_token_s}};
}

ordered_json logprobs_json(const Engine& engine,
                           const std::vector<std::vector<TokenLogprob>>& logprobs) {
  ordered_json json = ordered_json::array();
  for (const std::vector<TokenLogprob>& alternatives : logprobs) {
    ordered_json list = ordered_json::array();
    for (const TokenLogprob& entry : alternatives) {
      list.push_back({{"token", entry.token},
                      {"text", engine.detokenize({entry.token})},
                      {"logprob", entry.logprob}});
    }
    json.push_back(std::move(list));
  }
  return json;
}

ordered_json completion_json(const Engine& engine, const Completion& completion) {
  ordered_json json = {{"text", completion.text}, {"tokens", completion.tokens}};
  json.update(facts_json(completion.reason, completion.stats));
  if (!completion.logprobs.empty()) json["logprobs"] = logprobs_json(engine, completion.logprobs);
  if (!completion.prompt_logprobs.empty()) {
    json["prompt_logprobs"] = logprobs_json(engine, completion.prompt_logprobs);
  }
  return json;
}

ordered_json emulation_json(const Engine& engine) {
  if (engine.info().emulated.empty()) return nullptr;
  const EmulationStats stats = engine.emulation();
  return {{"profile", engine.info().emulated},
          {"steps", stats.steps},
          {"late_steps", stats.late_steps},
          {"late_ms", 1000.0 * stats.late_seconds}};
}

}  // namespace forerun::app
