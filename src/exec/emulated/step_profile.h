// What Steps cost on a machine that is not this one: published or measured times, read from a data
// file, for the emulated and the simulated executor. bench/profiles/README.md is the format.
//
// Plain data: any number of readers.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "step/cost_table.h"
#include "step/step.h"
#include "step/types.h"

namespace forerun {

// What a Step's time depends on.
struct StepLoad {
  int32_t rows = 0;
  int64_t kv_tokens = 0;  // context tokens, summed over its sequences
};

// A sequence's context is what the row that sees most of it sees.
StepLoad load_of(const Step& step);

// One model's times on its devices.
class StepTimes {
 public:
  // `rows` >= 1, `seconds` > 0. Entries with the same rows and load count by their median.
  void add(const StepLoad& load, double seconds);
  bool empty() const { return curves_.empty(); }
  // Exact at the entries; between and beyond them as bench/profiles/README.md says. Not empty().
  double seconds(const StepLoad& load) const;

 private:
  std::map<int64_t, std::map<int32_t, std::vector<double>>> entries_;  // by load, by rows; sorted
  std::map<int64_t, std::map<int32_t, double>> curves_;                // their medians
};

// A row of a published table of speculation (MagicDec, eq. 1 and 2).
struct PublishedRound {
  std::string source;   // table
  int32_t batch = 0;    // sequences, B
  int32_t prefill = 0;  // context of each, S
  int32_t gamma = 0;    // draft Steps a round
  double gamma_draft_seconds = 0.0;
  double verify_seconds = 0.0;
  double tokens_per_round = 0.0;  // Omega
  double plain_seconds = 0.0;
  double speculative_seconds = 0.0;  // a token
  double speedup = 0.0;
};

struct StepProfile {
  std::string name;
  std::string machine;
  std::string source;
  bool separate_devices = false;  // the roles' Steps run side by side, else in turn
  std::array<std::string, kNumRoles> models;
  std::array<StepTimes, kNumRoles> times;  // the draft's may be empty
  std::vector<PublishedRound> rounds;
  std::vector<std::string> notes;

  bool has(Role role) const { return !times[static_cast<size_t>(role)].empty(); }
  // Only where has(role).
  double seconds(Role role, const StepLoad& load) const {
    return times[static_cast<size_t>(role)].seconds(load);
  }
  // One sequence of this context.
  CostTable cost_table(int32_t context_tokens) const;
};

// All profiles of a text; `name` begins every message.
Result<std::vector<StepProfile>> parse_step_profiles(std::string_view text,
                                                     const std::string& name);

// All profiles of a file, by name. kNotFound where there is no such file, kCorrupt where it is no
// JSON, kInvalidArgument with the field, what was found and what is accepted otherwise.
Result<std::vector<StepProfile>> read_step_profiles(const std::filesystem::path& file);

// "FILE#NAME", or "FILE" where it holds one profile; otherwise fails with the names there are.
Result<StepProfile> load_step_profile(const std::string& spec);

}  // namespace forerun
