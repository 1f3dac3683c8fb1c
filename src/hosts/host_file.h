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
  std::string name;  // or address, of IPv4 or IPv6
  std::string user;  // empty: the one that ssh takes
  int32_t port = 0;  // of ssh; 0: the one that it takes

  bool is_ipv6() const { return name.find(':') != std::string::npos; }
  // Whether it is no more than a name, or an address of IPv4.
  bool is_plain() const { return user.empty() && port == 0 && !is_ipv6(); }
  // As a line of a host file of OpenMPI's, for one process.
  std::string line() const;
  bool operator==(const HostAddress&) const = default;
};

// A host a line, the coordinator's first, then those of the stages in order; a host may come again.
// `user@` may stand in front of its name, and behind it slots=N (so many processes one after
// another, 1 where it is left out), max_slots=N, port=N and username=NAME, also in OpenMPI's other
// spellings (count, cpu, max-slots, user-name). Empty lines and what follows a '#' or "//" are not
// looked at. Names are of letters, digits, '.', '-' and '_', IPv6 addresses in addition of ':', and
// begin with a letter, a digit or, of addresses, ':': nothing that a shell or mpirun could take for
// something else, and one name has one user and port. kInvalidArgument, naming `file` and the line,
// otherwise, and for less than two processes or more than 1,024.
Result<std::vector<HostAddress>> parse_host_file(std::string_view text, const std::string& file);

}  // namespace forerun
