// A signal handler that an application may install, so that a weight file that is cut short costs
// requests instead of the process.
#pragma once

namespace forerun {

// Weights lie in a memory map of the checkpoint's files. Where one of them is truncated while an
// engine reads from it, or its disk fails, the system raises SIGBUS, whose default ends the process
// without a word. With this handler the engine's requests end with an error that names the file
// (StatusCode::kInternal), those under way and all later ones; nothing else is disturbed. Engines
// find by themselves, with or without it, that a file was written to.
//
// The library never calls it. The handler acts on addresses of Forerun's own maps alone; any other
// SIGBUS goes to the handler that was there before, or, where there was none, ends the process as
// it would have. A handler that is installed later must pass on to this one the faults that are not
// its own. The handler takes no lock and allocates nothing. This function may be called at any time
// and any number of times; from the second time on it does nothing.
void install_sigbus_handler();

}  // namespace forerun
