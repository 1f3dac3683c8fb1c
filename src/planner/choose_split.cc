#include "planner/choose_split.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "planner/measure_costs.h"
#include "simulation/offline_runner.h"
#include "strategies/acceptance.h"
#include "strategies/speculation_plan.h"
#include "strategies/strategy.h"

namespace forerun {
namespace {

// Plans with a forecast below this share of the best so far are not tried.
constexpr double kWorthTrying = 0.6;
constexpr int32_t kTrials = 2;  // trials of each plan; the fastest counts
constexpr int32_t kTrialTokens = 64;
constexpr int32_t kMinTrialTokens = 8;
constexpr double kTrialSeconds = 4.0;  // approximate time of all texts of a trial together
constexpr float kTrialTemperature = 0.8f;
constexpr int32_t kShownRows = 8;  // rows for which t_target is shown
constexpr int32_t kDraftWidth = 8;

// Returns the requests of the trials: half of them greedy, half sampled.
std::vector<OfflineRequest> trial_requests(const std::vector<std::vector<int32_t>>& prompts,
                                           int32_t new_tokens) {
  std::vector<OfflineRequest> requests;
  for (const float temperature : {0.0f, kTrialTemperature}) {
    for (const std::vector<int32_t>& prompt : prompts) {
      OfflineRequest request;
      request.prompt = prompt;
      request.new_tokens = new_tokens;
      request.sampling.temperature = temperature;
      request.sampling.seed = requests.size();
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

// Runs a plan on the models themselves; returns its tokens/s.
Result<double> try_plan(SplitModels& models, const SplitTrials& trials, const CostTable& costs,
                        const ForecastPlan& forecast) {
  // Uses the engine's draft source, like later requests.
  FORERUN_ASSIGN_OR_RETURN(const auto plan, resolve_speculation({.source = trials.source},
                                                                trials.models, forecast.plan));
  const double affordable =
      kTrialSeconds * forecast.tokens_per_s / static_cast<double>(2 * trials.prompts.size());
  const auto tokens =
      static_cast<int32_t>(std::clamp<double>(affordable, kMinTrialTokens, kTrialTokens));
  const std::vector<OfflineRequest> requests = trial_requests(trials.prompts, tokens);
  const auto shared = std::make_shared<SharedAcceptance>();
  OfflineOptions offline_options;
  offline_options.clock = [&models] { return models.now_seconds(); };
  offline_options.make_strategy = [&](size_t) {
    return plan->make_strategy({.shared = shared, .costs = costs});
  };
  FORERUN_ASSIGN_OR_RETURN(const std::vector<OfflineResult> results,
                           run_offline(models.executor(), requests, offline_options));
  return decoding_rate(results);
}

std::string report_line(const Split& split, const CostTable& costs, const AutoChoice& plan,
                        double forecast, double tried) {
  const double target = costs.at(Role::kTarget, kShownRows);
  const double draft = costs.at(Role::kDraft, kDraftWidth);
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "  %8.3f ms  %8.3f ms  r %3d  %-24s  %9.1f forecast",
                1e3 * target, 1e3 * draft, static_cast<int>(target / draft), describe(plan).c_str(),
                forecast);
  std::string place = split.name;
  place.resize(std::max<size_t>(place.size(), 32), ' ');
  std::string line = place + numbers;
  if (tried > 0.0) {
    std::snprintf(numbers, sizeof numbers, "  %9.1f tried", tried);
    line += numbers;
  }
  return line + "\n";
}

std::string left_out(const Split& split, const Status& failure) {
  return split.name + " is left out: " + failure.message();
}

// Loads, measures and tries one split after the other; the models are loaded once at a time.
class Trial {
 public:
  Trial(SplitModels& models, const SplitTrials& trials)
      : models_(models),
        trials_(trials),
        turns_left_(static_cast<int32_t>(trials.splits.size()) + kFinalists) {
    for (const Split& split : trials.splits) {
      records_.push_back({.split = &split, .plans = {}, .costs = {}, .failure = {}});
    }
  }

  Result<ChosenSplit> run() {
    for (Record& record : records_) keep_if(record, turn(record));
    // Other work on the machine can only make a trial slower. So the best splits get a second
    // trial, and the better of both counts.
    for (Record* record : best(kFinalists)) keep_if(*record, turn(*record));
    Record* winner = nullptr;
    do {
      const std::vector<Record*> left = best(1);
      if (left.empty()) {
        return records_.front().failure.with_context(
            "auto: no split of the processors can be used; " + records_.front().split->name);
      }
      winner = left.front();
      if (winner->plans.front().tried <= 0.0) {
        return Status(StatusCode::kInternal, "auto: no split of the processors gave a token");
      }
    } while (!keep_if(*winner, load(*winner)));
    ChosenSplit chosen;
    chosen.index = index_of(*winner);
    chosen.costs = winner->costs;
    chosen.plan = winner->plans.front().forecast.plan;
    chosen.report = report();
    return chosen;
  }

 private:
  static constexpr int32_t kFinalists = 2;

  struct Plan {
    ForecastPlan forecast;
    double tried = 0.0;  // tokens/s; 0: not tried
  };
  struct Record {
    const Split* split = nullptr;
    std::vector<Plan> plans;  // best first
    StepCosts costs;          // costs of its better trial
    Status failure;           // not ok: the split is excluded
  };

  // Excludes the split if `status` is a failure, since another split may work. Returns whether the
  // split stays.
  static bool keep_if(Record& record, Status status) {
    if (!status.ok()) log_line(LogLevel::kWarning, "auto: " + left_out(*record.split, status));
    record.failure = std::move(status);
    return record.failure.ok();
  }

  size_t index_of(const Record& record) const {
    return static_cast<size_t>(record.split - trials_.splits.data());
  }

  Status load(const Record& record) {
    if (loaded_ == &record) return {};
    loaded_ = nullptr;
    FORERUN_RETURN_IF_ERROR(models_.load(index_of(record)));
    loaded_ = &record;
    return {};
  }

  Status turn(Record& record) {
    if (trials_.on_progress) {
      const auto turns = static_cast<double>(records_.size() + kFinalists);
      trials_.on_progress(1.0 - turns_left_-- / turns);
    }
    FORERUN_RETURN_IF_ERROR(load(record));
    FORERUN_ASSIGN_OR_RETURN(StepCosts costs, models_.measure());
    const CostTable table = costs.table(1, kReferenceContext);
    double best_tried = 0.0;
    std::vector<Plan> plans;
    FORERUN_ASSIGN_OR_RETURN(const std::vector<ForecastPlan> forecasts,
                             forecast_plans(table, {.concurrent = record.split->concurrent}));
    for (const ForecastPlan& forecast : forecasts) {
      Plan plan{forecast, 0.0};
      best_forecast_ = std::max(best_forecast_, forecast.tokens_per_s);
      for (int32_t trial = 0;
           trial < kTrials && forecast.tokens_per_s >= kWorthTrying * best_forecast_; ++trial) {
        FORERUN_ASSIGN_OR_RETURN(const double rate, try_plan(models_, trials_, table, forecast));
        plan.tried = std::max(plan.tried, rate);
      }
      best_tried = std::max(best_tried, plan.tried);
      plans.push_back(plan);
    }
    if (record.plans.empty() || best_tried > record.plans.front().tried) {
      record.costs = costs;
      record.plans = std::move(plans);
      std::stable_sort(record.plans.begin(), record.plans.end(),
                       [](const Plan& a, const Plan& b) { return a.tried > b.tried; });
    }
    return {};
  }

  // Returns the `count` best splits that did not fail.
  std::vector<Record*> best(size_t count) {
    std::vector<Record*> all;
    for (Record& record : records_) {
      if (record.failure.ok()) all.push_back(&record);
    }
    // The split that is loaded now comes first, so that it need not be loaded again.
    std::stable_sort(all.begin(), all.end(), [](const Record* a, const Record* b) {
      const Plan& pa = a->plans.front();
      const Plan& pb = b->plans.front();
      return pa.tried != pb.tried ? pa.tried > pb.tried
                                  : pa.forecast.tokens_per_s > pb.forecast.tokens_per_s;
    });
    all.resize(std::min(count, all.size()));
    if (all.size() > 1 && all.back() == loaded_) std::reverse(all.begin(), all.end());
    return all;
  }

  std::string report() {
    std::string text = "split: ms of a target Step and of a draft Step of 8 rows, tokens/s\n";
    for (const Record& record : records_) {
      if (!record.failure.ok()) {
        text += left_out(*record.split, record.failure) + "\n";
        continue;
      }
      for (const Plan& plan : record.plans) {
        text += report_line(*record.split, record.costs.table(1, kReferenceContext),
                            plan.forecast.plan, plan.forecast.tokens_per_s, plan.tried);
      }
    }
    const Record& winner = *best(1).front();
    return text + "kept: " + winner.split->name + ", " +
           describe(winner.plans.front().forecast.plan) + "\n";
  }

  SplitModels& models_;
  const SplitTrials& trials_;
  int32_t turns_left_;
  std::vector<Record> records_;
  double best_forecast_ = 0.0;
  const Record* loaded_ = nullptr;
};

}  // namespace

Result<ChosenSplit> choose_split(SplitModels& models, const SplitTrials& trials) {
  return Trial(models, trials).run();
}

}  // namespace forerun
