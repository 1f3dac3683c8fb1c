// Connections that are opened, held and never used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::bench {

class IdleConnections {
 public:
  // Opens `count` connections to an IPv4 address. Fails with kResourceExhausted if the process has
  // too few descriptors or the system too few ports.
  static Result<IdleConnections> open(const std::string& address, uint16_t port, int32_t count);
  IdleConnections(IdleConnections&& other) noexcept = default;
  IdleConnections& operator=(IdleConnections&&) = delete;
  ~IdleConnections();

  int32_t count() const { return static_cast<int32_t>(sockets_.size()); }
  // Returns the number of connections that the server has closed or written to.
  int32_t count_lost() const;

 private:
  IdleConnections() = default;
  std::vector<int> sockets_;
};

}  // namespace forerun::bench
