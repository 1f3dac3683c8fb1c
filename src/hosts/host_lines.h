// Files of one host each for mpirun, which takes ports, users and addresses of IPv6 from files
// alone. They have no name in any folder, so that none stays behind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "hosts/host_file.h"

namespace forerun {

class HostLines {
 public:
  static Result<HostLines> make(const std::vector<HostAddress>& hosts);
  HostLines(HostLines&& other) noexcept;
  HostLines& operator=(HostLines&&) = delete;
  ~HostLines();

  // By the names of the hosts; none where all hosts are no more than names. May be read by this
  // user's processes while this one lives, and this object.
  const std::map<std::string, std::string>& paths() const { return paths_; }

 private:
  HostLines() = default;
  std::vector<int> descriptors_;
  std::map<std::string, std::string> paths_;
};

}  // namespace forerun
