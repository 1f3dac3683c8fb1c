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

// What pack_parts() makes of a whole layer, by its description alone. The zero points of a file may
// turn out to be all in the middle, and then the weight may be smaller.
struct PartsPlan {
  WeightFormat format;
  int64_t bytes;
};
// Nothing where kernels have no format.
std::optional<PartsPlan> plan_parts(const WeightParts& parts);

// Whether pack_parts() takes this part of the layer.
bool packs_parts(const WeightParts& parts, const ModulePart& part);

// Packs a part for which packs_parts() holds, by as many threads as there are cores. FP8 stays
// where it is: the checkpoint must outlive the weight. kUnsupported where a value has no place in
// any format: such weights are widened. kCorrupt where a value is no number.
Result<LinearWeight> pack_parts(const WeightParts& parts, const ModulePart& part);

}  // namespace forerun
