#include "strategies/request_driver.h"

namespace forerun {

void RequestDriver::set_strategy(std::unique_ptr<Strategy> strategy) {
  earlier_ = stats();
  strategy_ = std::move(strategy);
  state_ = State::kWaiting;
}

StrategyStats RequestDriver::stats() const {
  StrategyStats sum = earlier_;
  if (strategy_) sum += strategy_->stats();
  return sum;
}

}  // namespace forerun
