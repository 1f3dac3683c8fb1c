// A trace as the JSON that chrome://tracing and Perfetto read (Trace Event Format): a lane for the
// target, for the draft, for the host's turns, and for each request's rounds.
#pragma once

#include <string>

#include "forerun/trace.h"

namespace forerun {

// Microseconds from the trace's earliest moment on. An empty trace gives lanes without events.
std::string chrome_trace(const Trace& trace);

}  // namespace forerun
