// Advice for checkpoints of model families that Forerun does not run.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// Says how to convert a checkpoint of this architecture (config.json's name) to an accepted family,
// or that it cannot be converted.
std::string way_out_for_architecture(std::string_view architecture);

// `accepted` with what to do, for fields under which a model of an accepted family computes
// something else.
std::string accepted_or_other_engines(std::string_view accepted);

}  // namespace forerun
