// The file that says on which machines a launch runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// A host a line, the coordinator's first, then those of the stages in order; a host may come again.
// Empty lines and what follows a '#' are not looked at. Names are of letters, digits, '.', '-' and
// '_', IPv6 addresses in addition of ':', and begin with a letter or digit: nothing that a shell or
// mpirun could take for something else. kInvalidArgument, naming `file` and the line, otherwise,
// and for less than two lines.
Result<std::vector<std::string>> parse_host_file(std::string_view text, const std::string& file);

}  // namespace forerun
