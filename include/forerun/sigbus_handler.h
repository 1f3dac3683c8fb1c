// A signal handler that an application may install. With it, a truncated weight file makes requests
// fail and does not end the process.
#pragma once

namespace forerun {

// Weights are read from a memory map of the checkpoint's files. If a file is truncated while an
// engine reads it, or its disk fails, the system raises SIGBUS, which by default ends the process
// without a message. With this handler the engine's running and later requests end with an error
// that names the file (StatusCode::kInternal); nothing else is affected. Engines detect writes to a
// file even without the handler.
//
// The library never installs it. The handler acts only on addresses in Forerun's own maps. It
// passes any other SIGBUS to the handler that was installed before; if there was none, the signal
// ends the process as usual. A handler that is installed later must pass faults that are not its
// own to this one. The handler takes no lock and allocates nothing. This function may be called at
// any time; from the second call on it does nothing.
void install_sigbus_handler();

}  // namespace forerun
