// Messages over MPI between the processes that mpirun or Slurm has started.
//
// A wait within MPI polls and may never end, so nothing here waits in MPI: sends and receives are
// started and then tested. Only MPI's start and end wait; both have a time limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "forerun/status.h"
#include "hosts/hosts.h"
#include "hosts/transport.h"

namespace forerun {

// Returns the number of processes that mpirun or Slurm started together, including this one; 1: it
// was started alone. Reads the environment and does not call MPI.
int32_t processes_of_launch();
LocalPlace place_on_machine();

// Fails with kUnsupported if this build has no MPI; the message says what to install.
Status check_mpi();
// Starts MPI; may be called once in a process. Fails if check_mpi() fails. If MPI does not start in
// time, the process ends with a message.
Result<std::unique_ptr<Transport>> start_mpi(std::chrono::milliseconds timeout);
// Leaves MPI at the end of the process, after the transport has been destroyed. If `failed`, or if
// other processes do not leave in time, ends the rest of the launch at once with `exit_code`.
void leave_mpi(bool failed, int exit_code);

}  // namespace forerun
