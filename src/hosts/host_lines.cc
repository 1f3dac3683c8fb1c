#include "hosts/host_lines.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace forerun {

Result<HostLines> HostLines::make(const std::vector<HostAddress>& hosts) {
  HostLines lines;
  // mpirun finds no slots on hosts given by name if others are given by file, so all hosts are
  // given in the same way.
  if (std::all_of(hosts.begin(), hosts.end(),
                  [](const HostAddress& host) { return host.is_plain(); })) {
    return lines;
  }
  for (const HostAddress& host : hosts) {
    if (lines.paths_.contains(host.name)) continue;
    const std::string line = host.line();
    const int descriptor = memfd_create("forerun-host", MFD_CLOEXEC);
    if (descriptor >= 0) lines.descriptors_.push_back(descriptor);
    if (descriptor < 0 ||
        write(descriptor, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return Status(
          StatusCode::kResourceExhausted,
          std::string("--hosts: cannot make a host file for mpirun: ") + std::strerror(errno));
    }
    lines.paths_[host.name] =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor);
  }
  return lines;
}

HostLines::HostLines(HostLines&& other) noexcept
    : descriptors_(std::exchange(other.descriptors_, {})), paths_(std::move(other.paths_)) {}

HostLines::~HostLines() {
  for (const int descriptor : descriptors_) close(descriptor);
}

}  // namespace forerun
