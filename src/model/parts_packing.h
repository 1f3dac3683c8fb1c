// Repacking of a checkpoint's layouts (checkpoint/layouts) for the kernels that read them as they
// are stored. No value changes.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/layouts/weight_parts.h"
#include "forerun/status.h"
#include "kernels/linear/linear.h"
#include "model/shard_plan.h"

namespace forerun {

// The result of pack_parts() for a part of a layer.
struct PartsPlan {
  WeightFormat format;
  int64_t bytes;  // LinearWeight::bytes()
};
// Returns the plan of a part; unset if kernels have no format for it, and the loader widens it. The
// format can depend on zeros and scales of the whole layer (WeightParts::integers), so all devices
// have the same one, unless they divide groups.
std::optional<PartsPlan> plan_parts(const WeightParts& parts, const ModulePart& part);

// Packs a part that has a plan, on as many threads as there are cores. FP8 stays in place: the
// checkpoint must outlive the weight. Returns kCorrupt if a value is no number.
Result<LinearWeight> pack_parts(const WeightParts& parts, const ModulePart& part);

}  // namespace forerun
