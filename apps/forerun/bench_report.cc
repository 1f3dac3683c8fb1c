#include "bench_report.h"

#include <nlohmann/json.hpp>

#include "terminal.h"

namespace forerun::app {
namespace {

using nlohmann::ordered_json;

std::string milliseconds(double seconds) {
  const double ms = 1000.0 * seconds;
  return format_fixed(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::string percent(double share) { return share > 0 ? format_fixed(100.0 * share, 0) + "%" : "-"; }

std::string times(double ratio) { return ratio > 0 ? format_fixed(ratio, 2) + "x" : "-"; }

ordered_json spread_json(const bench::Spread& spread) {
  return {{"mean", 1000.0 * spread.mean},
          {"p50", 1000.0 * spread.p50},
          {"p95", 1000.0 * spread.p95},
          {"p99", 1000.0 * spread.p99},
          {"max", 1000.0 * spread.max}};
}

}  // namespace

std::vector<std::string> one_by_one_titles() {
  return {"prompts",     "strategy", "temp",     "tokens/s", "step ms", "target ms", "draft ms",
          "tokens/step", "accepted", "first ms", "speed-up", "worst",   "identical"};
}

std::vector<std::string> row_cells(const std::string& workload, const bench::RunnerRow& row) {
  return {workload,
          row.strategy,
          format_fixed(row.temperature, 1),
          format_fixed(row.tokens_per_s, 1),
          format_fixed(row.step_ms, 2),
          format_fixed(row.target_ms, 2),
          row.draft_ms > 0 ? format_fixed(row.draft_ms, 2) : "-",
          format_fixed(row.tokens_per_step, 2),
          percent(row.acceptance),
          format_fixed(row.time_to_first_token_ms, 1),
          format_fixed(row.ratio_to_baseline, 2) + "x",
          format_fixed(row.ratio_worst, 2) + "x",
          std::to_string(row.identical) + "/" + std::to_string(row.prompts)};
}

ordered_json row_json(const bench::RunnerRow& row) {
  return {{"strategy", row.strategy},
          {"temperature", row.temperature},
          {"tokens_per_s", row.tokens_per_s},
          {"tokens_per_step", row.tokens_per_step},
          {"acceptance", row.acceptance},
          {"draft_steps_per_step", row.draft_steps_per_step},
          {"step_ms", row.step_ms},
          {"target_ms", row.target_ms},
          {"draft_ms", row.draft_ms},
          {"time_to_first_token_ms", row.time_to_first_token_ms},
          {"speed_up", row.ratio_to_baseline},
          {"speed_up_worst_prompt", row.ratio_worst},
          {"identical", row.identical},
          {"prompts", row.prompts}};
}

std::vector<std::string> load_titles() {
  return {"prompts",    "strategy", "temp",     "requests",  "at once",   "tokens/s", "",
          "decoding/s", "",         "first ms", "p99",       "token ms",  "p99",      "max",
          "event ms",   "p99",      "accepted", "preempted", "identical", "host us"};
}

std::vector<std::string> row_cells(const std::string& workload, const bench::LoadRow& row) {
  return {workload,
          row.strategy,
          format_fixed(row.temperature, 1),
          std::to_string(row.requests),
          row.concurrency > 0 ? std::to_string(row.concurrency) : "any",
          format_fixed(row.output_tokens_per_s, 1),
          times(row.ratio_to_baseline),
          row.decoding_tokens_per_s ? format_fixed(*row.decoding_tokens_per_s, 1) : "-",
          times(row.decoding_ratio_to_baseline),
          milliseconds(row.first_token_s.p50),
          milliseconds(row.first_token_s.p99),
          milliseconds(row.between_tokens_s.p50),
          milliseconds(row.between_tokens_s.p99),
          milliseconds(row.between_tokens_s.max),
          milliseconds(row.between_events_s.p50),
          milliseconds(row.between_events_s.p99),
          percent(row.acceptance),
          row.preemptions > 0 ? std::to_string(row.preemptions) : "-",
          row.identical ? std::to_string(*row.identical) + "/" + std::to_string(row.requests) : "-",
          row.host ? format_fixed(row.host->turn_us + row.host->step_us, 1) : "-"};
}

ordered_json row_json(const bench::LoadRow& row) {
  ordered_json json = {
      {"strategy", row.strategy},           {"temperature", row.temperature},
      {"requests", row.requests},           {"concurrency", row.concurrency},
      {"prompt_tokens", row.prompt_tokens}, {"output_tokens", row.output_tokens},
      {"window_s", row.window_s},           {"tokens_per_s", row.output_tokens_per_s},
      {"speed_up", row.ratio_to_baseline}};
  if (row.decoding_tokens_per_s) {
    json["decoding_tokens_per_s"] = *row.decoding_tokens_per_s;
    json["decoding_s"] = row.decoding_s;
    json["decoding_speed_up"] = row.decoding_ratio_to_baseline;
  }
  json["time_to_first_token_ms"] = spread_json(row.first_token_s);
  json["between_tokens_ms"] = spread_json(row.between_tokens_s);
  json["between_events_ms"] = spread_json(row.between_events_s);
  json["tokens_per_step"] = row.tokens_per_step;
  json["acceptance"] = row.acceptance;
  json["preemptions"] = row.preemptions;
  json["submitted_late_ms"] = 1000.0 * row.late_s;
  if (row.identical) json["identical"] = *row.identical;
  if (row.host) {
    json["host_us_a_result"] = row.host->turn_us + row.host->step_us;
    json["host_turn_us"] = row.host->turn_us;
    json["host_step_us"] = row.host->step_us;
    json["results"] = row.host->results;
    json["idle_us"] = {{"p50", row.host->idle_us.p50},
                       {"p99", row.host->idle_us.p99},
                       {"max", row.host->idle_us.max}};
  }
  return json;
}

std::vector<std::string> long_prompt_titles() {
  return {"prompts", "strategy",         "temp",     "requests", "long prompt", "before: token ms",
          "p99",     "during: token ms", "p99",      "max",      "event ms",    "p99",
          "tokens",  "first ms",         "cancel ms"};
}

std::vector<std::string> row_cells(const std::string& workload, const bench::LongPromptRow& row) {
  return {workload,
          row.strategy,
          format_fixed(row.temperature, 1),
          std::to_string(row.requests),
          std::to_string(row.long_prompt_tokens),
          milliseconds(row.before_s.p50),
          milliseconds(row.before_s.p99),
          milliseconds(row.during_s.p50),
          milliseconds(row.during_s.p99),
          milliseconds(row.during_s.max),
          milliseconds(row.events_during_s.p50),
          milliseconds(row.events_during_s.p99),
          std::to_string(row.tokens_during),
          milliseconds(row.first_token_s),
          milliseconds(row.cancel_s)};
}

ordered_json row_json(const bench::LongPromptRow& row) {
  return {{"strategy", row.strategy},
          {"temperature", row.temperature},
          {"requests", row.requests},
          {"long_prompt_tokens", row.long_prompt_tokens},
          {"before_between_tokens_ms", spread_json(row.before_s)},
          {"before_between_events_ms", spread_json(row.events_before_s)},
          {"during_between_tokens_ms", spread_json(row.during_s)},
          {"during_between_events_ms", spread_json(row.events_during_s)},
          {"tokens_during", row.tokens_during},
          {"time_to_first_token_ms", 1000.0 * row.first_token_s},
          {"cancel_ms", 1000.0 * row.cancel_s}};
}

}  // namespace forerun::app
