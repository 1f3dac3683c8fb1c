#include "engine/batch_costs.h"

#include <algorithm>
#include <cmath>

#include "planner/measure_costs.h"

namespace forerun {
namespace {

constexpr int32_t kTurnsToRefresh = 512;
constexpr double kTurnMemory = 0.02;  // share of the last turn in the mean
constexpr int64_t kExactSequences = 8;

// Loads of one bucket differ by so little that one table does: up to 8 sequences each has its own,
// beyond that a step is 19%, and one of contexts 41%.
int64_t bucket_of(int64_t sequences, int64_t context) {
  const int64_t by_sequences =
      sequences <= kExactSequences
          ? sequences
          : kExactSequences + std::lround(4.0 * std::log2(static_cast<double>(sequences) /
                                                          static_cast<double>(kExactSequences)));
  const int64_t by_context = std::lround(2.0 * std::log2(256.0 + static_cast<double>(context)));
  return by_sequences * 256 + by_context;
}

}  // namespace

void BatchCosts::join(int64_t tokens) {
  ++sequences_;
  tokens_ += tokens;
}

void BatchCosts::leave(int64_t tokens) {
  --sequences_;
  tokens_ -= tokens;
}

void BatchCosts::note_turn(Role role, size_t rows, double seconds) {
  TurnSeconds& mean = turns_[static_cast<size_t>(role)];
  double& value = rows > 1 ? mean.tree : mean.plain;
  value = value == 0.0 ? seconds : value + kTurnMemory * (seconds - value);
}

CostTable BatchCosts::for_newcomer() const {
  if (version_ > 0) return table_;
  return costs_ != nullptr ? costs_->table(1, kReferenceContext) : CostTable{};
}

void BatchCosts::refresh() {
  if (costs_ == nullptr || sequences_ == 0) return;
  const int64_t context = tokens_ / sequences_;
  const int64_t bucket = bucket_of(sequences_, context);
  if (bucket == load_bucket_ && ++turns_since_refresh_ < kTurnsToRefresh) return;
  load_bucket_ = bucket;
  turns_since_refresh_ = 0;
  table_ = costs_->table(static_cast<int32_t>(sequences_), context);
  for (size_t role = 0; role < turns_.size(); ++role) {
    if (table_.seconds[role][1] <= 0.0f) continue;
    const auto sequences = static_cast<double>(sequences_);
    const double plain = sequences * turns_[role].plain;
    // A turn with a tree takes no less than one without.
    const double tree = std::max(plain, sequences * turns_[role].tree);
    table_.seconds[role][1] += static_cast<float>(plain);
    for (size_t rows = 2; rows < table_.seconds[role].size(); ++rows) {
      table_.seconds[role][rows] += static_cast<float>(tree);
    }
  }
  ++version_;
}

}  // namespace forerun
