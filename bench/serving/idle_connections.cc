#include "serving/idle_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace forerun::bench {
namespace {

constexpr rlim_t kOtherDescriptors = 1024;

Status exhausted(const std::string& what) {
  return {StatusCode::kResourceExhausted, "idle connections: " + what};
}

Status allow_descriptors(int32_t count) {
  rlimit limit{};
  const rlim_t wanted = static_cast<rlim_t>(count) + kOtherDescriptors;
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted) return {};
  return exhausted("found a limit of " + std::to_string(limit.rlim_max) +
                   " descriptors; accepted: at least " + std::to_string(wanted));
}

}  // namespace

Result<IdleConnections> IdleConnections::open(const std::string& address, uint16_t port,
                                              int32_t count) {
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &server.sin_addr) != 1) {
    return Status(StatusCode::kInvalidArgument,
                  "host: found '" + address + "'; accepted: an IPv4 address");
  }
  const Status allowed = allow_descriptors(count);
  if (!allowed.ok()) return allowed;
  IdleConnections made;
  for (int32_t idx = 0; idx < count; ++idx) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return exhausted(std::strerror(errno));
    made.sockets_.push_back(socket);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&server), sizeof(server)) != 0) {
      return exhausted("connection " + std::to_string(idx) + ": " + std::strerror(errno));
    }
  }
  return made;
}

IdleConnections::~IdleConnections() {
  for (const int socket : sockets_) ::close(socket);
}

int32_t IdleConnections::count_lost() const {
  return static_cast<int32_t>(std::count_if(sockets_.begin(), sockets_.end(), [](int socket) {
    char byte = 0;
    const ssize_t count = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }));
}

}  // namespace forerun::bench
