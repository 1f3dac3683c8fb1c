// Step times of another machine, published or measured, for the emulated and the simulated
// executor. They come from a data file; bench/profiles/README.md describes its format.
//
// A profile is plain data: any number of threads may read it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "step/step_costs.h"
#include "step/types.h"

namespace forerun {

// A row of a published table of speculation (MagicDec, eq. 1 and 2).
struct PublishedRound {
  std::string source;   // the table and paper
  int32_t batch = 0;    // B, the number of sequences
  int32_t prefill = 0;  // S, the context of each sequence
  int32_t gamma = 0;    // draft Steps per round
  double gamma_draft_seconds = 0.0;
  double verify_seconds = 0.0;
  double tokens_per_round = 0.0;  // Omega
  double plain_seconds = 0.0;
  double speculative_seconds = 0.0;  // per token
  double speedup = 0.0;
};

// A target cut into equal stages, and the links between their hosts. The coordinator, the draft and
// the first stage share a host; every other stage has its own.
struct StageChain {
  int32_t stages = 2;
  int32_t layers = 1;      // layers per stage; a stage looks for cancelled rows after each
  int64_t row_bytes = 0;   // bytes per hidden row
  double bytes_per_s = 0;  // bandwidth of one link
  double latency_seconds = 0;
};

struct StepProfile {
  std::string name;
  std::string machine;
  std::string source;
  bool separate_devices = false;  // the roles' Steps run concurrently, else sequentially
  std::array<std::string, kNumRoles> models;
  StepCosts costs;  // may lack the draft's
  // If set, the target's Steps pass through stages, each of which takes its share of the time.
  std::optional<StageChain> stages;
  std::vector<PublishedRound> rounds;
  std::vector<std::string> notes;

  bool has(Role role) const { return costs.has(role); }
};

// Returns all profiles in a text; `name` begins every message.
Result<std::vector<StepProfile>> parse_step_profiles(std::string_view text,
                                                     const std::string& name);

// Returns all profiles in a file, by name. Returns kNotFound if there is no such file, kCorrupt if
// it is no JSON, and otherwise kInvalidArgument with the field, what was found and what is
// accepted.
Result<std::vector<StepProfile>> read_step_profiles(const std::filesystem::path& file);

// Loads the profile "FILE#NAME", or "FILE" if the file holds only one; otherwise fails and lists
// the names.
Result<StepProfile> load_step_profile(const std::string& spec);

}  // namespace forerun
