#include "planner/assumed_acceptance.h"

#include <algorithm>
#include <cmath>

namespace forerun {

double assumed_acceptance(const KvViewFacts& facts, int64_t budget) {
  const double known = facts.acceptance;
  if (known <= 0.0 || budget >= facts.budget || budget <= 0) return known;
  const double less = static_cast<double>(facts.budget) / static_cast<double>(budget);
  return std::max(0.0, 1.0 - (1.0 - known) * std::pow(less, 0.25));
}

}  // namespace forerun
