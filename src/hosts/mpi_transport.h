// Messages over MPI: the processes that mpirun, or Slurm, has started.
//
// MPI itself polls while it waits and may wait for ever, so nothing here waits in it: sends and
// receives are begun and looked after, and what does wait, its start and its end, is watched.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "forerun/status.h"
#include "hosts/hosts.h"
#include "hosts/transport.h"

namespace forerun {

// The number of processes that mpirun or Slurm started together with this one, itself included; 1:
// it was started alone. Reads the environment and does not call MPI.
int32_t processes_of_launch();
LocalPlace place_on_machine();

// kUnsupported, with what to install, where this build has no MPI.
Status check_mpi();
// Starts MPI; once a process. Fails as check_mpi(); where MPI does not start in time, the process
// ends with a message.
Result<std::unique_ptr<Transport>> start_mpi(std::chrono::milliseconds timeout);
// Leaves MPI, at the process's end, when the transport is gone. Where `failed`, or others do not
// leave in time, ends what is left of the launch at once, with `exit_code`.
void leave_mpi(bool failed, int exit_code);

}  // namespace forerun
