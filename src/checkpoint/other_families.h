// Advice for checkpoints of unsupported model families.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// Returns how to convert a checkpoint of this architecture (config.json's name) to an accepted
// family, or that this is impossible.
std::string way_out_for_architecture(std::string_view architecture);

// Returns `accepted` with advice, for fields that make a model of an accepted family compute
// something else.
std::string accepted_or_other_engines(std::string_view accepted);

}  // namespace forerun
