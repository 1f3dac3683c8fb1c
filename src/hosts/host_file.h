// The file that names the machines of a launch, in the format of OpenMPI's host files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// The host on which a process of the launch runs.
struct HostAddress {
  std::string name;  // a name, or an IPv4 or IPv6 address
  std::string user;  // empty: ssh's own choice
  int32_t port = 0;  // ssh's port; 0: ssh's own choice

  bool is_ipv6() const { return name.find(':') != std::string::npos; }
  // Returns whether it is only a name or an IPv4 address, without user and port.
  bool is_plain() const { return user.empty() && port == 0 && !is_ipv6(); }
  // Returns the line of an OpenMPI host file for one process on this host.
  std::string line() const;
  bool operator==(const HostAddress&) const = default;
};

// Reads one host per line, the coordinator's first, then those of the stages in order; a host may
// be listed several times. `user@` may precede the name; slots=N (number of consecutive processes,
// default 1), max_slots=N, port=N and username=NAME may follow it, also in OpenMPI's other
// spellings (count, cpu, max-slots, user-name). Empty lines and text after '#' or "//" are ignored.
// Names consist of letters, digits, '.', '-' and '_' and begin with a letter or digit; IPv6
// addresses may contain, and begin with, ':' too. So a shell or mpirun cannot mistake a name for
// something else. All lines of a name must have the same user and port. Fails with
// kInvalidArgument, naming `file` and the line, if a rule is broken, or with fewer than 2 or more
// than 1,024 processes.
Result<std::vector<HostAddress>> parse_host_file(std::string_view text, const std::string& file);

}  // namespace forerun
