// One request on a StrictExecutor of its own, for simulate.h and for tests of strategies. The
// caller decides which role runs next and when a result arrives.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "simulation/strict_executor.h"
#include "strategies/request_driver.h"

namespace forerun {

class SimulatedRequest {
 public:
  // Starts the request at once; `request.tokens` need not outlive the call. The executor takes the
  // request's sequence and length.
  SimulatedRequest(std::unique_ptr<Strategy> strategy, AcceptanceModel models,
                   StrictExecutor::Options options, const RequestView& request)
      : executor_(std::move(models), for_request(options, request)),
        view_(request),
        tokens_(request.tokens.begin(), request.tokens.end()),
        driver_(std::move(strategy)) {
    driver_.start(request, accept_, submit_);
  }
  // Does the same with the options that most tests need.
  SimulatedRequest(std::unique_ptr<Strategy> strategy, AcceptanceModel models,
                   const std::vector<TokenId>& prompt, int32_t max_tokens)
      : SimulatedRequest(std::move(strategy), std::move(models), {},
                         {.sequence = 1,
                          .tokens = prompt,
                          .prompt_tokens = static_cast<int32_t>(prompt.size()),
                          .max_tokens = max_tokens,
                          .sampling = {}}) {}
  SimulatedRequest(const SimulatedRequest&) = delete;
  SimulatedRequest& operator=(const SimulatedRequest&) = delete;

  // Returns whether no item is left to run. Results that have not been handed over do not count.
  bool idle() const { return executor_.idle(); }
  bool has_work(Role role) const { return executor_.has_work(role); }
  // Runs the role's next item. If the item has a result, the caller passes it to hand_over().
  std::optional<WorkResult> run(Role role) { return executor_.run(role); }
  void hand_over(WorkResult result) {
    if (driver_.on_result(result, accept_, submit_) == RequestDriver::State::kDrained) go_on();
  }
  // Makes the request switch to this strategy at the end of the present round.
  void change_strategy(std::unique_ptr<Strategy> strategy) {
    next_ = std::move(strategy);
    if (driver_.drain() == RequestDriver::State::kDrained) go_on();
  }
  // Runs the role's next item and hands over its result.
  void turn(Role role) {
    if (const auto result = run(role)) hand_over(*result);
  }
  // Runs turns until no item is left; items of role `first` run before those of the other role.
  void run_to_end(Role first = Role::kTarget) {
    const Role second = first == Role::kTarget ? Role::kDraft : Role::kTarget;
    while (!idle()) turn(has_work(first) ? first : second);
  }
  // Lets the strategy do the work that it may do while a Step runs.
  void prepare() { driver_.prepare(); }
  void on_costs(const CostTable& costs) { driver_.on_costs(costs); }

  // Returns the tokens emitted in all turns so far.
  const std::vector<EmittedToken>& emitted() const { return emitted_; }
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> tokens;
    for (const EmittedToken& token : emitted_) tokens.push_back(token.token);
    return tokens;
  }
  const std::vector<RoundRecord>& rounds() const { return rounds_; }
  // Returns the number of submitted items.
  int64_t items(Role role) const { return items_[static_cast<size_t>(role)]; }
  StrategyStats stats() const { return driver_.stats(); }
  const char* strategy_name() const { return driver_.strategy_name(); }
  const StrictExecutor& executor() const { return executor_; }

 private:
  static StrictExecutor::Options for_request(StrictExecutor::Options options,
                                             const RequestView& request) {
    options.sequence = request.sequence;
    options.max_tokens = request.max_tokens;
    return options;
  }
  // Keeps the output. Returns false, since tokens never end the request: after max_tokens the
  // strategy has no more work.
  bool accept(const StrategyOutput& out) {
    emitted_.insert(emitted_.end(), out.tokens.begin(), out.tokens.end());
    for (const EmittedToken& token : out.tokens) tokens_.push_back(token.token);
    rounds_.insert(rounds_.end(), out.rounds.begin(), out.rounds.end());
    return false;
  }
  void submit(WorkItem item) {
    ++items_[static_cast<size_t>(item.role)];
    executor_.submit(std::move(item));
  }

  void go_on() {
    driver_.change_strategy(std::move(next_));
    view_.tokens = tokens_;
    driver_.start(view_, accept_, submit_);
  }

  StrictExecutor executor_;
  RequestView view_;
  std::vector<TokenId> tokens_;  // prompt and output
  RequestDriver driver_;
  std::unique_ptr<Strategy> next_;
  std::vector<EmittedToken> emitted_;
  std::vector<RoundRecord> rounds_;
  std::array<int64_t, kNumRoles> items_{};
  const std::function<bool(StrategyOutput&)> accept_ = [this](StrategyOutput& out) {
    return accept(out);
  };
  const std::function<void(WorkItem)> submit_ = [this](WorkItem item) { submit(std::move(item)); };
};

}  // namespace forerun
