// Lowers the priority of threads with work that may wait for all other threads.
#pragma once

namespace forerun {

// Lowers the priority of the calling thread. It then gets about a tenth of a core that threads of
// normal priority compete for, and all of an idle core. If the system refuses, the thread keeps its
// priority.
void run_in_background();

}  // namespace forerun
