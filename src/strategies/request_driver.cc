#include "strategies/request_driver.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

bool wants_something(const WorkItem& item) {
  return item.verify_by_rejection ||
         std::any_of(item.rows.rbegin(), item.rows.rend(),
                     [](const WorkRow& row) { return row.want != Want::kNothing; });
}

}  // namespace

void RequestDriver::set_strategy(std::unique_ptr<Strategy> strategy) {
  earlier_ = stats();
  strategy_ = std::move(strategy);
  strategy_number_ = 0;
  ledger_.clear();
  target_items_ = 0;
  offered_tag_.reset();
  answered_ = drain_wanted_ = false;
  state_ = State::kWaiting;
}

RequestDriver::State RequestDriver::drain() {
  if (state_ != State::kRunning) return state_;
  drain_wanted_ = target_items_ == 0 && !answered_;
  if (drain_wanted_) return state_;
  at_drain_ = strategy_->stats();
  return state_ = is_idle() ? State::kDrained : State::kDraining;
}

void RequestDriver::change_strategy(std::unique_ptr<Strategy> strategy) {
  earlier_ = stats();
  strategy_ = std::move(strategy);
  strategy_number_ = (strategy_number_ + 1) % kStrategyNumbers;
  answered_ = drain_wanted_ = false;
  state_ = State::kWaiting;
}

StrategyStats RequestDriver::stats() const {
  StrategyStats sum = earlier_;
  if (!strategy_) return sum;
  StrategyStats now = strategy_->stats();
  if (state_ == State::kDraining || state_ == State::kDrained) {
    // Strategies count Steps when they submit them, but tokens and guesses when results arrive.
    now.target_steps = at_drain_.target_steps;
    now.draft_steps = at_drain_.draft_steps;
  }
  return sum += now;
}

bool RequestDriver::take_result(WorkResult& result) {
  if (result.tag >> kTagBits != strategy_number_) return false;
  result.tag &= (uint64_t{1} << kTagBits) - 1;
  const bool answers =
      !result.rows.empty() || result.bonus >= 0 || result.left_out || !result.walk_status.ok();
  if (result.role == Role::kTarget && answers) {
    --target_items_;
    answered_ = true;
  }
  if (result.role == Role::kDraft && result.tag == offered_tag_) {
    offered_tag_.reset();
    if (result.left_out) {
      ledger_.take_back_rows(result.role);
      --at_drain_.draft_steps;
    }
  }
  return true;
}

void RequestDriver::note(WorkItem& item) {
  ledger_.note(item);
  if (item.role == Role::kTarget && wants_something(item)) ++target_items_;
  const bool may_be_left_out = std::isfinite(item.gain) || item.needs_features;
  if (item.role == Role::kDraft && may_be_left_out) offered_tag_ = item.tag;
  item.tag |= strategy_number_ << kTagBits;
}

}  // namespace forerun
