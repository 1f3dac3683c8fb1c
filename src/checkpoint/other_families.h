// What can be done about a model family that Forerun does not run.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// How a checkpoint of this architecture (config.json's name) becomes one of an accepted family, or
// that nothing does it.
std::string way_out_for_architecture(std::string_view architecture);

}  // namespace forerun
