#include "supervisor/mpirun_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "supervisor/launch_folder.h"

namespace forerun {

Status check_network(const std::string& network) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::strchr(".:/_-,", c) != nullptr;
  };
  if (std::all_of(network.begin(), network.end(), is_part) && !network.starts_with('-')) return {};
  return Status(StatusCode::kInvalidArgument,
                "--network: found '" + network +
                    "'; accepted: an interface such as eth1 or a network such as 10.0.0.0/24");
}

std::vector<std::string> mpirun_command(const MpirunOptions& options) {
  std::vector<std::string> command = {options.mpirun, "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) command.emplace_back("--allow-run-as-root");  // for containers
  if (!options.network.empty()) {
    for (const char* const layer : {"btl_tcp_if_include", "oob_tcp_if_include"}) {
      command.insert(command.end(), {"--gmca", layer, options.network});
    }
  }
  if (!options.folder.empty()) {
    command.insert(command.end(), {"--gmca", "orte_tmpdir_base",
                                   LaunchFolder::session_folder(options.folder).string()});
    // If one process ends, the others end at once. By default mpirun gives them a second to clean
    // up, and reports the failure only after that.
    command.insert(command.end(), {"--gmca", "odls_base_sigkill_timeout", "0"});
  }
  if (const char* const isa = std::getenv("FORERUN_ISA"); isa != nullptr && *isa != '\0') {
    command.insert(command.end(), {"-x", "FORERUN_ISA"});
  }
  // mpirun shortens lists of names to patterns, and crashes if a name is an IPv6 address.
  if (std::any_of(options.hosts.begin(), options.hosts.end(),
                  [](const std::string& host) { return host.find(':') != std::string::npos; })) {
    command.insert(command.end(), {"--gmca", "regx", "naive"});
  }
  // Each process has a line of its own, so that ranks are in the order of the lines.
  for (size_t rank = 0; rank < options.hosts.size(); ++rank) {
    if (rank > 0) command.emplace_back(":");
    const auto file = options.host_files.find(options.hosts[rank]);
    command.insert(command.end(), {"-n", "1"});
    if (file != options.host_files.end()) {
      command.insert(command.end(), {"--hostfile", file->second});
    } else {
      command.insert(command.end(), {"--host", options.hosts[rank]});
    }
    command.insert(command.end(), options.process.begin(), options.process.end());
  }
  return command;
}

}  // namespace forerun
