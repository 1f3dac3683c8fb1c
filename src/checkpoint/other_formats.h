// Error messages for weights in unsupported formats. Internal to checkpoint/.
#pragma once

#include <filesystem>

#include "forerun/status.h"

namespace forerun {

// Refuses a path that is a file; the message names its format and a tool that converts it.
Status refuse_file(const std::filesystem::path& file);

// Refuses a directory without model.safetensors and its index; the message names its other weight
// files.
Status refuse_weights_of(const std::filesystem::path& dir);

}  // namespace forerun
