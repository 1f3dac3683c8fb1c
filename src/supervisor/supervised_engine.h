// An engine in this process that runs its work in a launch over several hosts. When a process of
// the launch dies, stalls or is cut off, the launch is replaced, and requests continue from their
// tokens; their output does not change.
//
// A reader may notice a pause. RequestStats counts the work of the last launch, and tokens of
// earlier launches as resumed_tokens. After a failure of the draft, launches run without it for a
// while. take_trace() returns nothing.
#pragma once

#include <memory>

#include "forerun/engine.h"
#include "supervisor/supervisor_options.h"

namespace forerun {

// Starts the launch and waits until its engine is ready. Fails if Engine::create() fails, if mpirun
// cannot start (with its output), or with kCancelled. Threads and lifetimes are those of Engine;
// destroying the engine ends the launch.
Result<std::unique_ptr<Engine>> create_supervised_engine(SupervisorOptions options);

}  // namespace forerun
