// An engine whose work is done by a launch over several hosts, outside of which it lives: when a
// process of it dies, stalls or is cut off, the launch is replaced and requests go on from their
// tokens, the same ones as ever.
//
// What a reader may notice: a pause; RequestStats counts what the last launch has done, with what
// earlier ones have put out among resumed_tokens; a failure of the draft leaves it out from then
// on. take_trace() is empty.
#pragma once

#include <memory>

#include "forerun/engine.h"
#include "supervisor/supervisor_options.h"

namespace forerun {

// Starts the launch and waits until its engine is there. Fails as Engine::create, with what mpirun
// has said where that cannot start, or with kCancelled. Threads and lifetimes are Engine's;
// destroying it ends the launch.
Result<std::unique_ptr<Engine>> create_supervised_engine(SupervisorOptions options);

}  // namespace forerun
