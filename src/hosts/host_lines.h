// Host files of one line each for mpirun, which accepts ports, users and IPv6 addresses only in
// files. The files have no directory entry, so none can be left behind.
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

  // Returns the files' paths, keyed by host name; empty if all hosts are plain names. This user's
  // processes can read the files while this process and this object live.
  const std::map<std::string, std::string>& paths() const { return paths_; }

 private:
  HostLines() = default;
  std::vector<int> descriptors_;
  std::map<std::string, std::string> paths_;
};

}  // namespace forerun
