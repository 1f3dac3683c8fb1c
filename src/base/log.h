// The log sink. Library code never prints: it hands a line to the sink, which an application sets
// once at start-up. Without a sink lines are dropped. Thread-safe.
#pragma once

#include <functional>
#include <string_view>

namespace forerun {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel level, std::string_view line)>;

// Replaces the sink. Call it before other threads of Forerun run.
void set_log_sink(LogSink sink);
void log_line(LogLevel level, std::string_view line);

}  // namespace forerun
