// The user's folders for files that can be made anew at any time.
#pragma once

#include <filesystem>
#include <string>

#include "forerun/engine.h"

namespace forerun {

// Returns $XDG_CACHE_HOME/forerun/NAME, by default ~/.cache/forerun/NAME; empty if the environment
// names neither.
std::string user_cache_folder(const char* name);

// Returns the folder of digests called `name`: inside that of the user's step costs, or, on a host
// that cannot make it, inside the host's own cache folder. Empty: none are kept.
std::filesystem::path digest_folder(const EngineOptions& options, const char* name);

}  // namespace forerun
