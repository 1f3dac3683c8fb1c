// Carries the log lines of a launch's processes to the supervisor, through their standard error,
// which mpirun collects.
#pragma once

#include <string>

namespace forerun {

// Sends the log of this process to standard error from now on, with a mark and the level on each
// line. Call it before other threads run.
void log_to_supervisor();

// Returns whether `line` is such a marked line; if so, logs it in this process.
bool take_log_line(const std::string& line);

}  // namespace forerun
