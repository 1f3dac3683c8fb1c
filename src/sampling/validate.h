// Checks a request's sampling parameters before anything runs.
#pragma once

#include <cstdint>
#include <string>

#include "forerun/sampling_params.h"
#include "forerun/status.h"

namespace forerun {

// The accepted range of a SamplingField, for messages: "0 to 1", "-1 or more".
std::string range_text(double min, double max);

// `vocab`: tokens that can be sampled; ids of logit_bias must be below it. kInvalidArgument names
// the parameter, what was found and what is accepted.
Status validate_sampling_params(const SamplingParams& params, int32_t vocab);

}  // namespace forerun
