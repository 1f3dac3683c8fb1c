// The mpirun command that starts a process on each host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct MpirunOptions {
  std::vector<std::string> hosts;  // one name per process, in order of rank (hosts/host_file.h)
  // Maps a host's name to the host file with its user, port or IPv6 address (hosts/host_lines.h).
  std::map<std::string, std::string> host_files;
  std::string network;  // an interface, or a network such as 10.0.0.0/24; empty: all
  std::string folder;   // folder of the launch's files (launch_folder.h); empty: mpirun's own
  std::vector<std::string> process;  // program and arguments of each process
  std::string mpirun = "mpirun";
};

// Fails unless `network` is the name of an interface, or a network that mpirun cannot mistake for
// something else. Messages begin with "--network".
Status check_network(const std::string& network);

// Hosts and network must have been checked. The command passes on FORERUN_ISA from this process's
// environment.
std::vector<std::string> mpirun_command(const MpirunOptions& options);

}  // namespace forerun
