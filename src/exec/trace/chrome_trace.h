// The export of a trace as JSON for chrome://tracing and Perfetto (Trace Event Format), with lanes
// for the target, the draft, the host's turns, and each request's rounds.
#pragma once

#include <string>

#include "forerun/trace.h"

namespace forerun {

// Returns the JSON, with microseconds since the trace's earliest moment. An empty trace gives lanes
// without events.
std::string chrome_trace(const Trace& trace);

}  // namespace forerun
