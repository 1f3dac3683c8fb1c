// Log lines of a launch's processes on their way through standard error, which mpirun gathers.
#pragma once

#include <string>

namespace forerun {

// From now on what this process logs goes to standard error, marked, with its level. Call before
// other threads run.
void log_to_supervisor();

// Whether `line` is one of those; it is logged here then.
bool take_log_line(const std::string& line);

}  // namespace forerun
