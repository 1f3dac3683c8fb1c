// Starts an unsupervised launch over the hosts of a file: mpirun runs this same command on each
// host.
#pragma once

#include <string>

#include "forerun/status.h"

namespace forerun::app {

struct HostStart {
  std::string file;     // hosts/host_file.h
  std::string network;  // an interface, or a network such as 10.0.0.0/24; empty: all
};

// Returns the path of this program.
Result<std::string> own_program();

// Runs until the launch ends. Rank 0 has this process's input and output. No shell is run, and
// mpirun ends with this process. Fails if the launch has failed, with the output of mpirun or a
// rank as the reason; with kCancelled if a signal arrived.
Status start_on_hosts(const HostStart& start);

}  // namespace forerun::app
