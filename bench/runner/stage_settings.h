// The settings that simulate_stages measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/speculation_plan.h"

namespace forerun::bench {

struct StageSetting {
  std::string name;
  SpeculationOptions options;
  bool hides_draft = false;  // the draft's Steps take no time
};

// Returns plain decoding first, `pipelined` second, then serial trees: chains, expansions,
// best-first trees of few and of many rows, and the tree that chooses its size.
std::vector<StageSetting> grid_settings();
// Returns all settings, plain decoding first. `widths`: w of the shapes `levels` and `best`.
std::vector<StageSetting> all_settings(const std::vector<int32_t>& widths);

}  // namespace forerun::bench
