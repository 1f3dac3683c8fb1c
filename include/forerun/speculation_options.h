// How drafts are made and verified.
#pragma once

#include <cstdint>
#include <string>

namespace forerun {

// None of it changes which tokens come out (rule "match").
struct SpeculationOptions {
  // "auto" (the planner chooses from what it measures), "autoregressive", "serial_tree" (drafting
  // and verification in turn), "parallel_tree" (at the same time; worth it with draft_devices).
  std::string strategy = "auto";
  // "model", "ngram", "suffix", or a union such as "model+suffix". Empty: "suffix" where there is
  // no draft model, else "model+suffix" for serial_tree's shape "adaptive", and "model" otherwise.
  std::string source = {};
  // "adaptive" or "best"; serial_tree also: "chain", or a static expansion such as "1,1,3,1,1".
  std::string shape = "adaptive";
  std::string accept = "match";  // or "rejection": exact in distribution only
  int32_t verify_tokens = 8;     // bs: rows of a verification, the root included
  int32_t draft_width = 4;       // w: leaves expanded a draft step, "best"
  int32_t draft_depth = 4;       // d: draft steps a round, "best" and "chain"
  bool shared_noise = true;      // the draft ranks by the target's noise
};

}  // namespace forerun
