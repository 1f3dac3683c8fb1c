// Lowers the priority of threads whose work may wait for that of all other threads.
#pragma once

namespace forerun {

// Lowers the priority of the calling thread: it gets about a tenth of a core where threads of
// normal priority want that core, and all of it where none does. Where the system refuses, the
// thread keeps its priority.
void run_in_background();

}  // namespace forerun
