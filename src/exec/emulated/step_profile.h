// How long Steps take on another machine: published or measured times, read from a data file, for
// the emulated and the simulated executor. bench/profiles/README.md describes the format.
//
// Plain data: any number of readers.
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
  std::string source;   // the table that it is from
  int32_t batch = 0;    // sequences, B
  int32_t prefill = 0;  // context of each, S
  int32_t gamma = 0;    // draft Steps per round
  double gamma_draft_seconds = 0.0;
  double verify_seconds = 0.0;
  double tokens_per_round = 0.0;  // Omega
  double plain_seconds = 0.0;
  double speculative_seconds = 0.0;  // per token
  double speedup = 0.0;
};

// A target cut into equal stages, and the links between their hosts. The coordinator, the draft and
// the first stage are one host; every other stage has one of its own.
struct StageChain {
  int32_t stages = 2;
  int32_t layers = 1;      // layers of a stage, which looks for cancelled rows after each
  int64_t row_bytes = 0;   // bytes of a hidden row
  double bytes_per_s = 0;  // bandwidth of a link
  double latency_seconds = 0;
};

struct StepProfile {
  std::string name;
  std::string machine;
  std::string source;
  bool separate_devices = false;  // the roles' Steps run concurrently, else sequentially
  std::array<std::string, kNumRoles> models;
  StepCosts costs;  // the draft's may be missing
  // The target's Steps then pass through stages, each of which takes its share of their time.
  std::optional<StageChain> stages;
  std::vector<PublishedRound> rounds;
  std::vector<std::string> notes;

  bool has(Role role) const { return costs.has(role); }
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
