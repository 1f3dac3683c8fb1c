// Drives one request: passes results to its strategy, submits its work, passes on its tokens, and
// detects the end of the request. The engine's loop, the offline runner, the simulations and the
// tests all use it; it depends on no executor, clock or other request.
//
// A turn is a start or a result. In every turn `accept` gets the strategy's output, even if nothing
// was emitted, and may move data out of it; it returns whether the request is over (by its last
// token, its length or a cancellation). If it is not over, `submit` then gets the turn's work, item
// by item in order.
//
// A request changes its strategy while it runs: drain(), results until kDrained, change_strategy(),
// start(). No row of its text is run again: the target's KV is kept, and the draft's KV of verified
// text. If both strategies are lossless, the tokens do not depend on the change.
//
// Thread rules: one thread at a time.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "step/work.h"
#include "strategies/kv_ledger.h"
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
    kDraining,  // waits for target items and optional draft items in flight; submits nothing more
    kDrained,   // between rounds: change_strategy() is next
    kOver,      // accept() returned true
    kFailed,    // error() has the reason: a result failed, or the text needs a row that gives no
                // token
  };

  RequestDriver() = default;
  explicit RequestDriver(std::unique_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}

  // Sets the strategy of a new sequence, also if the request is rebuilt; none while the request
  // waits for one. start() then passes the tokens so far to the strategy. stats() keeps the counts
  // of the previous strategy.
  void set_strategy(std::unique_ptr<Strategy> strategy);

  // Ends the strategy's work at the next point between rounds, at once if the target has nothing in
  // flight; it waits for the draft only if the draft's item may be left out. A strategy continues
  // until the target has answered it once, so that a request with frequent changes of strategy
  // still progresses. Does nothing unless the request runs.
  State drain();
  // The state must be kDrained. start() continues with the tokens so far: all that accept() has
  // been given.
  void change_strategy(std::unique_ptr<Strategy> strategy);

  // There must be a strategy, and the state must be kWaiting. `request.tokens` need not outlive the
  // call; `request.kv_tokens` and `request.first_node` are filled in here.
  template <AcceptsOutput Accept, std::invocable<WorkItem> Submit>
  State start(RequestView request, Accept&& accept, Submit&& submit) {
    settle(request, submit);
    out_.clear();
    strategy_->start(request, out_);
    return deliver(accept, submit);
  }

  // Passes a result to the strategy, unless it is not ok, belongs to an earlier strategy, or the
  // request does not run. Removes the driver's strategy number from `result.tag`.
  template <AcceptsOutput Accept, std::invocable<WorkItem> Submit>
  State on_result(WorkResult& result, Accept&& accept, Submit&& submit) {
    if (state_ != State::kRunning && state_ != State::kDraining) return state_;
    if (!result.status.ok()) return fail(result.status);
    if (!take_result(result)) return state_;
    out_.clear();
    strategy_->on_result(result, out_);
    return deliver(accept, submit);
  }

  // Calls Strategy::on_costs(). Must be called between turns.
  void on_costs(const CostTable& costs) { strategy_->on_costs(costs); }
  // Calls Strategy::prepare() if the request runs.
  void prepare() {
    if (state_ == State::kRunning) strategy_->prepare();
  }

  State state() const { return state_; }
  // Returns the reason for kFailed.
  const Status& error() const { return error_; }
  // Returns the sums over all strategies that the request has had, without counts for work that was
  // not submitted.
  StrategyStats stats() const;
  // Returns "none" if there is no strategy.
  const char* strategy_name() const { return strategy_ ? strategy_->name() : "none"; }

 private:
  // The upper bits of an item's tag are the number of its strategy, modulo kStrategyNumbers.
  static constexpr int kTagBits = 48;
  static constexpr uint64_t kStrategyNumbers = uint64_t{1} << (64 - kTagBits);

  template <typename Submit>
  void settle(RequestView& request, Submit& submit) {
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      WorkItem edits;
      edits.sequence = request.sequence;
      edits.role = role;
      edits.edits = ledger_.settle(role, request.tokens);
      if (!edits.edits.empty()) submit(std::move(edits));
      request.kv_tokens[static_cast<size_t>(role)] = ledger_.prefix(role);
    }
    request.first_node = ledger_.next_node();
  }
  // Returns whether no item in flight can change the text or the ledger.
  bool is_idle() const { return target_items_ == 0 && !offered_tag_; }
  // Returns false if the result belongs to an earlier strategy.
  bool take_result(WorkResult& result);
  void note(WorkItem& item);
  State fail(const Status& error) {
    error_ = error;
    return state_ = State::kFailed;
  }
  template <typename Accept, typename Submit>
  State deliver(Accept& accept, Submit& submit) {
    if (accept(out_)) return state_ = State::kOver;
    if (!out_.error.ok()) return fail(out_.error);
    if (state_ == State::kDraining) return state_ = is_idle() ? State::kDrained : state_;
    for (WorkItem& item : out_.work) {
      note(item);
      submit(std::move(item));
    }
    state_ = State::kRunning;
    return drain_wanted_ && target_items_ > 0 ? drain() : state_;
  }

  std::unique_ptr<Strategy> strategy_;
  uint64_t strategy_number_ = 0;
  KvLedger ledger_;
  int32_t target_items_ = 0;             // target items in flight that request an answer
  std::optional<uint64_t> offered_tag_;  // tag of the item in flight that may be left out
  bool answered_ = false;                // the target has answered this strategy
  bool drain_wanted_ = false;
  StrategyStats earlier_;   // sum over earlier strategies
  StrategyStats at_drain_;  // this strategy's counts when draining began
  State state_ = State::kWaiting;
  Status error_;
  StrategyOutput out_;  // output of one turn; kept to reuse its memory
};

}  // namespace forerun
