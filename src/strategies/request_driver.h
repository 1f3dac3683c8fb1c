// Drives one request: feeds results to its strategy, submits its work, hands on what it emits, and
// knows when it is over. The one core under the engine's loop, the offline player, the simulations
// and the tests; it knows no executor, no clock and no other request.
//
// A turn is a start or a result. In every turn `accept` gets the strategy's output, even where
// nothing was emitted, and may take out of it what it likes; it returns whether the request is over
// (its last token, its length, a cancellation). Unless it is, `submit` then gets the turn's work,
// item by item in order.
//
// One thread at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "step/work.h"
#include "strategies/strategy.h"

namespace forerun {

template <typename F>
concept AcceptsOutput = requires(F accept, StrategyOutput& out) {
  { accept(out) } -> std::same_as<bool>;
};

class RequestDriver {
 public:
  enum class State : uint8_t {
    kWaiting,  // not started, or its strategy was replaced since
    kRunning,
    kOver,    // accept() said so
    kFailed,  // a result failed: what the strategy knows of its KV no longer holds
  };

  RequestDriver() = default;
  explicit RequestDriver(std::unique_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}

  // Gives the request another strategy, or none while it waits to be rebuilt; start() then tells it
  // the tokens so far. What the former one counted stays in stats().
  void set_strategy(std::unique_ptr<Strategy> strategy);

  // Needs a strategy and the state kWaiting. `request.tokens` need not outlive the call.
  template <AcceptsOutput Accept, std::invocable<WorkItem> Submit>
  State start(const RequestView& request, Accept&& accept, Submit&& submit) {
    out_.clear();
    strategy_->start(request, out_);
    return deliver(accept, submit);
  }

  // A result that is not ok never reaches the strategy, and nothing does unless the request runs.
  template <AcceptsOutput Accept, std::invocable<WorkItem> Submit>
  State on_result(const WorkResult& result, Accept&& accept, Submit&& submit) {
    if (state_ != State::kRunning) return state_;
    if (!result.status.ok()) return state_ = State::kFailed;
    out_.clear();
    strategy_->on_result(result, out_);
    return deliver(accept, submit);
  }

  // As Strategy::on_costs(); between turns.
  void on_costs(const CostTable& costs) { strategy_->on_costs(costs); }

  State state() const { return state_; }
  // Of all its strategies.
  StrategyStats stats() const;
  // "none" without one.
  const char* strategy_name() const { return strategy_ ? strategy_->name() : "none"; }

 private:
  template <typename Accept, typename Submit>
  State deliver(Accept& accept, Submit& submit) {
    if (accept(out_)) return state_ = State::kOver;
    for (WorkItem& item : out_.work) submit(std::move(item));
    return state_ = State::kRunning;
  }

  std::unique_ptr<Strategy> strategy_;
  StrategyStats earlier_;  // of strategies before this one
  State state_ = State::kWaiting;
  StrategyOutput out_;  // of one turn; kept for its memory
};

}  // namespace forerun
