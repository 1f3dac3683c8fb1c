// Plain decoding: the prompt's rows, then one row per token. All lossless strategies must give the
// same tokens.
#pragma once

#include <cstdint>

#include "strategies/strategy_table.h"

namespace forerun {

class Autoregressive : public Strategy {
 public:
  // Entries of the table of strategies.
  static OptionSet uses(const TreeShape&, bool) { return {}; }
  static Status check(SpeculationPlan&) { return {}; }
  static std::unique_ptr<Strategy> make(const SpeculationPlan&, const StrategyParts&) {
    return std::make_unique<Autoregressive>();
  }

  void start(const RequestView& request, StrategyOutput& out) override;
  void on_result(const WorkResult& result, StrategyOutput& out) override;
  void on_costs(const CostTable&) override {}
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "autoregressive"; }

 private:
  SequenceId sequence_ = 0;
  int32_t length_ = 0;  // number of known tokens
  int32_t max_tokens_ = 0;
  StrategyStats stats_;
};

}  // namespace forerun
