// Fuzzes the reader of kept arms of `auto`. An accepted text must give finite beliefs and
// acceptance rates, and survive writing and reading.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/arm_file.h"
#include "planner/arm_rates.h"
#include "planner/candidate_acceptance.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = forerun::parse_arm_file(text, "arms.json");
  if (!file.ok()) {
    if (file.status().message().find("arms.json") == std::string::npos) std::abort();
    return 0;
  }
  const forerun::MeasuredArms& measured = file->measured;
  forerun::ArmRates rates(
      std::vector<forerun::ArmRates::Belief>(measured.arms.size(), {0.0, 0.15}));
  rates.recall(measured.arms);
  for (int32_t arm = 0; arm < rates.arms(); ++arm) {
    for (const int32_t sequences : {1, 64}) {
      const auto belief = rates.belief(arm, {.sequences = sequences, .context_tokens = 4000});
      if (!std::isfinite(belief.mean) || std::abs(belief.mean) > 4.0) std::abort();
      if (!(belief.deviation > 0.0) || belief.deviation > 0.15 + 1e-9) std::abort();
    }
  }
  forerun::CandidateAcceptance acceptance(std::vector<forerun::SpeculationCandidate>(
      measured.candidates.size(), {.draft = {}, .acceptance = 0.7}));
  acceptance.recall(measured.candidates);
  for (const auto& candidate : acceptance.candidates()) {
    if (!(candidate.acceptance >= 0.0 && candidate.acceptance <= 1.0)) std::abort();
  }
  const std::string written = forerun::write_arm_file(*file);
  const auto again = forerun::parse_arm_file(written, "written");
  if (!again.ok() || again->key != file->key) std::abort();
  if (forerun::write_arm_file(*again) != written) std::abort();
  return 0;
}
