#include "model/weight_override.h"

#include "kernels/linear/linear.h"

namespace forerun {

const char* weight_override_name(WeightOverride weights) {
  if (const auto format = override_format(weights)) return weight_format_name(*format);
  switch (weights) {
    case WeightOverride::kInt8Head:
      return "int8 head";
    case WeightOverride::kInt4Head:
      return "int4 head";
    default:
      return "as stored";
  }
}

}  // namespace forerun
