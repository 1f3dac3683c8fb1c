// What to answer where somebody points at weights in a format that Forerun does not read. Internal
// to checkpoint/.
#pragma once

#include <filesystem>

#include "forerun/status.h"

namespace forerun {

// For a path that is a file: refuses it by its format, with what to convert it with.
Status refuse_file(const std::filesystem::path& file);

// For a directory without model.safetensors and without its index: names what lies there instead.
Status refuse_weights_of(const std::filesystem::path& dir);

}  // namespace forerun
