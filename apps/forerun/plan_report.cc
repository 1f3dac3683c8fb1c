#include "plan_report.h"

#include <nlohmann/json.hpp>

#include "output.h"
#include "terminal.h"

namespace forerun::app {
namespace {

using nlohmann::ordered_json;

std::string ms(double seconds) { return format_fixed(1e3 * seconds, 2); }

std::string tokens(const std::optional<int64_t>& context) {
  return context ? std::to_string(*context) : "-";
}

std::string plan_table(const PlanReport& report, const BatchPlan& plan, bool all) {
  std::vector<std::vector<std::string>> table = {
      {std::to_string(plan.load.sequences) + " x " + std::to_string(plan.load.context_tokens) +
           " tokens",
       "guesses", "tokens/round", "a draft Step, ms", "verification, ms", "a token, ms", "tokens/s",
       "speed-up"}};
  for (const SpeculationForecast& each : all ? plan.ranked : best_of_each(plan.ranked)) {
    const RoundSeconds& times = each.times;
    const bool plain = each.is_plain();
    const double token =
        plain ? times.plain : seconds_per_token(times, each.gamma, each.tokens_per_round);
    table.push_back({name_of(report.candidates, each.candidate),
                     plain ? "-" : std::to_string(each.gamma),
                     format_fixed(each.tokens_per_round, 2),
                     plain ? "-" : ms(times.draft + times.guesses + times.selection),
                     plain ? "-" : ms(times.verify), ms(token), format_fixed(each.tokens_per_s, 0),
                     format_fixed(each.speedup, 2)});
  }
  return format_table(table);
}

std::string critical_table(const PlanReport& report) {
  bool has_self = false;
  for (const PlanCandidate& each : report.candidates) {
    has_self = has_self || each.candidate.draft.model == Role::kTarget;
  }
  std::vector<std::vector<std::string>> table = {{"speculation pays from, tokens", "with any"}};
  if (has_self) table.front().push_back("with the target's own view");
  table.front().push_back("longest context");
  for (const CriticalContexts& each : report.critical) {
    table.push_back({std::to_string(each.sequences) + " sequences", tokens(each.any)});
    if (has_self) table.back().push_back(tokens(each.self));
    table.back().push_back(std::to_string(each.longest));
  }
  return format_table(table) + "-: at no context up to the longest one that the model has" +
         (report.machine.memory ? " and the memory holds.\n" : ".\n");
}

ordered_json number_or_null(const std::optional<int64_t>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json forecast_json(const PlanReport& report, const SpeculationForecast& each) {
  ordered_json entry = {{"strategy", each.is_plain() ? "autoregressive" : "speculation"},
                        {"candidate", name_of(report.candidates, each.candidate)},
                        {"gamma", each.gamma},
                        {"tokens_per_round", each.tokens_per_round},
                        {"plain_ms", 1e3 * each.times.plain}};
  if (!each.is_plain()) {
    entry["draft_ms"] = 1e3 * each.times.draft;
    entry["guesses_ms"] = 1e3 * each.times.guesses;
    entry["drafted_a_step"] = each.times.drafted;
    entry["selection_ms"] = 1e3 * each.times.selection;
    entry["verify_ms"] = 1e3 * each.times.verify;
    entry["overhead_ms"] = 1e3 * each.times.overhead;
  }
  entry["tokens_per_s"] = each.tokens_per_s;
  entry["speed_up"] = each.speedup;
  return entry;
}

}  // namespace

std::string name_of(const std::vector<PlanCandidate>& candidates, int32_t candidate) {
  if (candidate == SpeculationForecast::kPlain) return "plain decoding";
  return candidates[static_cast<size_t>(candidate)].name;
}

std::string plan_text(const PlanReport& report, bool all) {
  std::string out = report.model + (report.draft.empty() ? "" : " with " + report.draft) + " on " +
                    report.machine.name + "\n  " + report.machine_note + "\n";
  for (const PlanCandidate& each : report.candidates) {
    out += "  " + each.name + ": acceptance " + format_fixed(each.candidate.acceptance, 2) + " (" +
           each.source + ")\n";
  }
  out += "What is not given is an assumption: measure, and pass --acceptance.\n";
  for (const BatchPlan& plan : report.plans) {
    out += "\n";
    if (plan.fits) {
      out += plan_table(report, plan, all);
    } else {
      out += std::to_string(plan.load.sequences) + " x " +
             std::to_string(plan.load.context_tokens) + " tokens do not fit the memory.\n";
    }
  }
  if (report.candidates.empty()) return out + "\nNothing to guess with at these contexts.\n";
  out += "\n" + critical_table(report);
  if (report.has_inflection) {
    const std::string few = std::to_string(report.critical.front().sequences);
    const std::string many = std::to_string(report.critical.back().sequences);
    out += report.inflection ? "From " + tokens(report.inflection) + " tokens on " + many +
                                   " sequences gain at least as much as " + few + ".\n"
                             : "Up to " + std::to_string(report.critical.back().longest) +
                                   " tokens " + many + " sequences gain less than " + few + ".\n";
  }
  return out;
}

std::string plan_json(const PlanReport& report) {
  ordered_json candidates = ordered_json::array();
  for (const PlanCandidate& each : report.candidates) {
    const DraftOption& draft = each.candidate.draft;
    candidates.push_back({{"name", each.name},
                          {"draft", draft.model == Role::kDraft ? "model" : "self"},
                          {"view", each.candidate.view},
                          {"budget", draft.budget_tokens},
                          {"checked_guesses", draft.checks.guesses},
                          {"acceptance", each.candidate.acceptance},
                          {"acceptance_source", each.source}});
  }
  ordered_json plans = ordered_json::array();
  for (const BatchPlan& plan : report.plans) {
    ordered_json ranked = ordered_json::array();
    for (const SpeculationForecast& each : plan.ranked) {
      ranked.push_back(forecast_json(report, each));
    }
    plans.push_back({{"batch", plan.load.sequences},
                     {"context", plan.load.context_tokens},
                     {"fits", plan.fits},
                     {"ranked", ranked}});
  }
  ordered_json critical = ordered_json::array();
  for (const CriticalContexts& each : report.critical) {
    critical.push_back({{"batch", each.sequences},
                        {"context", number_or_null(each.any)},
                        {"self_context", number_or_null(each.self)},
                        {"longest_context", each.longest}});
  }
  ordered_json all = {{"machine", report.machine.name},
                      {"measured", report.machine.measured},
                      {"machine_note", report.machine_note},
                      {"model", report.model},
                      {"draft", report.draft},
                      {"candidates", candidates},
                      {"plans", plans},
                      {"critical_context", critical},
                      {"longest_context", report.longest_context}};
  if (report.has_inflection) all["inflection_context"] = number_or_null(report.inflection);
  return json_text(all);
}

}  // namespace forerun::app
