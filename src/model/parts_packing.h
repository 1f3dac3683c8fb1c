// Weights of a checkpoint's layouts (checkpoint/layouts), repacked for the kernels that read them
// as they are stored. No value changes.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/layouts/weight_parts.h"
#include "forerun/status.h"
#include "kernels/linear/linear.h"
#include "model/shard_plan.h"

namespace forerun {

// What pack_parts() makes of a part of a layer.
struct PartsPlan {
  WeightFormat format;
  int64_t bytes;  // LinearWeight::bytes()
};
// Nothing where kernels have no format for the part: it is widened. Which format it is can depend
// on zeros and scales, of the whole layer (WeightParts::integers): all devices have the same,
// unless they divide groups.
std::optional<PartsPlan> plan_parts(const WeightParts& parts, const ModulePart& part);

// Packs a part that has a plan, by as many threads as there are cores. FP8 stays where it is: the
// checkpoint must outlive the weight. kCorrupt where a value is no number.
Result<LinearWeight> pack_parts(const WeightParts& parts, const ModulePart& part);

}  // namespace forerun
