#include "simulation/offline_runner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "exec/batch_costs.h"
#include "strategies/request_driver.h"

namespace forerun {
namespace {

constexpr std::chrono::seconds kTimeout{60};

struct Active {
  size_t index = 0;
  RequestDriver driver;
  // Tokens that the batch's costs include; 0: the request does not decode yet.
  int64_t tokens_counted = 0;
  uint64_t costs_version = 0;  // version of the costs that the strategy last received
};

class OfflineRunner {
 public:
  OfflineRunner(Executor& executor, std::span<const OfflineRequest> requests,
                const OfflineOptions& options)
      : executor_(executor),
        requests_(requests),
        options_(options),
        results_(requests.size()),
        batch_costs_(options.costs, options.drafts_sequentially) {}
  ~OfflineRunner() {
    for (const auto& [sequence, active] : active_) executor_.close(sequence);
  }

  Status run() {
    FORERUN_RETURN_IF_ERROR(admit());
    while (!active_.empty()) {
      std::optional<WorkResult> result = executor_.next(kTimeout);
      if (!result) {
        return Status(StatusCode::kInternal,
                      "run_offline: " + std::to_string(active_.size()) +
                          " requests wait, and the executor has nothing to do");
      }
      // Waits until another request ends and frees memory.
      if (result->waits_for_memory && active_.size() > 1) continue;
      FORERUN_RETURN_IF_ERROR(result->status);
      const auto found = active_.find(result->sequence);
      if (found == active_.end()) continue;
      Active& active = found->second;
      if (active.costs_version != batch_costs_.version()) {
        active.costs_version = batch_costs_.version();
        active.driver.on_costs(batch_costs_.table());
      }
      active.driver.on_result(
          *result, [&](StrategyOutput& out) { return accept(active, out); },
          [&](WorkItem item) { submit(active, std::move(item)); });
      if (active.driver.state() == RequestDriver::State::kFailed) return active.driver.error();
      count_in_batch(active, *result);
      close_if_over(found->first, active);
      FORERUN_RETURN_IF_ERROR(admit());
    }
    return {};
  }
  std::vector<OfflineResult> take() { return std::move(results_); }

 private:
  Status admit() {
    while (next_ < requests_.size() &&
           static_cast<int32_t>(active_.size()) < std::max(options_.max_active, 1)) {
      const size_t index = next_++;
      const OfflineRequest& request = requests_[index];
      SequenceSpec spec;
      spec.sampling = request.sampling;
      spec.prompt_tokens = static_cast<int32_t>(request.prompt.size());
      spec.max_tokens = spec.prompt_tokens + request.new_tokens;
      const SequenceId sequence = index + 1;
      FORERUN_RETURN_IF_ERROR(executor_.open(sequence, spec));
      Active& active = active_[sequence];
      active.index = index;
      batch_costs_.admit();
      active.driver.set_strategy(options_.make_strategy(index));
      results_[index].start_seconds = options_.clock();
      active.driver.start(
          {.sequence = sequence,
           .tokens = request.prompt,
           .prompt_tokens = spec.prompt_tokens,
           .max_tokens = spec.max_tokens,
           .sampling = spec.sampling},
          [&](StrategyOutput& out) { return accept(active, out); },
          [&](WorkItem item) { submit(active, std::move(item)); });
      close_if_over(sequence, active);
    }
    return {};
  }

  // Takes the strategy's emitted tokens; returns whether the request has all of its tokens.
  bool accept(const Active& active, const StrategyOutput& out) {
    OfflineResult& result = results_[active.index];
    const auto wanted = static_cast<size_t>(requests_[active.index].new_tokens);
    if (!out.tokens.empty()) {
      const double now = options_.clock();
      if (result.tokens.empty()) result.first_token_seconds = now;
      result.last_token_seconds = now;
    }
    const size_t before = result.tokens.size();
    for (const EmittedToken& token : out.tokens) {
      if (result.tokens.size() < wanted) result.tokens.push_back(token.token);
    }
    if (options_.on_tokens && result.tokens.size() > before) {
      options_.on_tokens(active.index, result.tokens.size() - before);
    }
    return result.tokens.size() == wanted;
  }

  void submit(const Active& active, WorkItem item) {
    item.shared_noise = requests_[active.index].shared_noise;
    executor_.submit(std::move(item));
  }

  void count_in_batch(Active& active, const WorkResult& result) {
    const std::vector<TokenId>& tokens = results_[active.index].tokens;
    if (tokens.empty()) return;
    const auto length = static_cast<int64_t>(requests_[active.index].prompt.size() + tokens.size());
    if (active.tokens_counted == 0) {
      batch_costs_.join(length);
    } else {
      batch_costs_.grow(length - active.tokens_counted);
    }
    active.tokens_counted = length;
    batch_costs_.note_step(result);
    batch_costs_.refresh();
  }

  void close_if_over(SequenceId sequence, const Active& active) {
    if (active.driver.state() != RequestDriver::State::kOver) return;
    results_[active.index].stats = active.driver.stats();
    if (active.tokens_counted > 0) batch_costs_.leave(active.tokens_counted);
    batch_costs_.retire();
    executor_.close(sequence);
    active_.erase(sequence);
  }

  Executor& executor_;
  const std::span<const OfflineRequest> requests_;
  const OfflineOptions& options_;
  std::vector<OfflineResult> results_;
  std::map<SequenceId, Active> active_;
  BatchCosts batch_costs_;
  size_t next_ = 0;
};

}  // namespace

double OfflineResult::tokens_per_s() const {
  const double seconds = last_token_seconds - first_token_seconds;
  return seconds > 0.0 ? static_cast<double>(tokens.size() - 1) / seconds : 0.0;
}

double OfflineResult::tokens_per_step() const {
  return stats.target_steps > 0
             ? static_cast<double>(tokens.size() - 1) / static_cast<double>(stats.target_steps)
             : 0.0;
}

Result<std::vector<OfflineResult>> run_offline(Executor& executor,
                                               std::span<const OfflineRequest> requests,
                                               const OfflineOptions& options) {
  for (const OfflineRequest& request : requests) {
    if (request.prompt.empty() || request.new_tokens < 1) {
      return Status(StatusCode::kInvalidArgument,
                    "run_offline: found a request of " + std::to_string(request.prompt.size()) +
                        " prompt tokens and " + std::to_string(request.new_tokens) +
                        " new ones; accepted: at least 1 of each");
    }
  }
  OfflineRunner runner(executor, requests, options);
  FORERUN_RETURN_IF_ERROR(runner.run());
  return runner.take();
}

}  // namespace forerun
