// Starts a launch over the hosts of a file that nobody supervises: mpirun, with this very command
// on each of them.
#pragma once

#include <string>

#include "forerun/status.h"

namespace forerun::app {

struct HostStart {
  std::string file;     // hosts/host_file.h
  std::string network;  // an interface, or a network as 10.0.0.0/24; empty: all
};

// The path of this program.
Result<std::string> own_program();

// Runs to the launch's end, with this process' input and output as rank 0's. No shell is run;
// mpirun ends with this process. Not ok where it has not ended well: what it, or a rank, has
// written says why. kCancelled where a signal came.
Status start_on_hosts(const HostStart& start);

}  // namespace forerun::app
