// Checks a request's sampling parameters before anything runs.
#pragma once

#include <cstdint>
#include <string>

#include "forerun/sampling_params.h"
#include "forerun/status.h"

namespace forerun {

// Returns the accepted range of a SamplingField, for messages: "0 to 1", "-1 or more".
std::string range_text(double min, double max);

// `vocab`: number of tokens that can be sampled; ids of logit_bias must be below it. Fails with
// kInvalidArgument; the message names the parameter, what was found and what is accepted.
Status validate_sampling_params(const SamplingParams& params, int32_t vocab);

}  // namespace forerun
