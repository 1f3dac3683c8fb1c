#include "supervisor/engine_totals.h"

#include <algorithm>
#include <vector>

#include "supervisor/event_fields.h"

namespace forerun {
namespace {

// The addresses of a struct's totals, in the order of their list.
struct Totals {
  std::vector<int64_t*> counts;
  std::vector<double*> seconds;

  void operator()(const char* /*name*/, int64_t& count) { counts.push_back(&count); }
  void operator()(const char* /*name*/, double& time) { seconds.push_back(&time); }
};

template <class T>
Totals totals_of(T& fields) {
  Totals totals;
  visit_totals(totals, fields);
  return totals;
}

template <class T>
void add(T& to, T& from) {
  const Totals sums = totals_of(to);
  const Totals more = totals_of(from);
  for (size_t idx = 0; idx < sums.counts.size(); ++idx) *sums.counts[idx] += *more.counts[idx];
  for (size_t idx = 0; idx < sums.seconds.size(); ++idx) *sums.seconds[idx] += *more.seconds[idx];
}

}  // namespace

void add_totals(EngineState& to, EngineState from) {
  add(to.load, from.load);
  add(to.emulation, from.emulation);
  for (StrategyLoad& each : from.load.strategies) {
    std::vector<StrategyLoad>& strategies = to.load.strategies;
    const auto same =
        std::find_if(strategies.begin(), strategies.end(),
                     [&](const StrategyLoad& other) { return other.strategy == each.strategy; });
    if (same == strategies.end()) {
      strategies.push_back(each);
    } else {
      add(*same, each);
    }
  }
}

}  // namespace forerun
