// The file that says on which machines a launch runs, as OpenMPI's host files are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Where a process of the launch runs.
struct HostAddress {
  std::string name;  // a name, or an address of IPv4 or IPv6
  std::string user;  // empty: ssh's own choice
  int32_t port = 0;  // ssh's port; 0: ssh's own choice

  bool is_ipv6() const { return name.find(':') != std::string::npos; }
  // Whether it is only a name or an address of IPv4.
  bool is_plain() const { return user.empty() && port == 0 && !is_ipv6(); }
  // The line of an OpenMPI host file for one process on this host.
  std::string line() const;
  bool operator==(const HostAddress&) const = default;
};

// A host a line, the coordinator's first, then those of the stages in order; a host may come again.
// `user@` may stand in front of its name, and behind it slots=N (so many processes one after
// another, 1 where it is left out), max_slots=N, port=N and username=NAME, also in OpenMPI's other
// spellings (count, cpu, max-slots, user-name). Empty lines and what follows a '#' or "//" are not
// looked at. Names consist of letters, digits, '.', '-' and '_' and begin with a letter or digit;
// IPv6 addresses may contain, and begin with, ':' too. So no name can mean something else to a
// shell or to mpirun. One name has one user and one port. Fails with kInvalidArgument, naming
// `file` and the line, where any of this does not hold, and for less than two processes or more
// than 1,024.
Result<std::vector<HostAddress>> parse_host_file(std::string_view text, const std::string& file);

}  // namespace forerun
