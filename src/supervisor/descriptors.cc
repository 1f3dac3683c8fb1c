#include "supervisor/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace forerun {

void make_non_blocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void close_once(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

Status read_available(int& descriptor, const std::function<Status(std::span<const char>)>& take) {
  std::array<char, 65536> bytes;
  while (descriptor >= 0) {
    const ssize_t size = ::read(descriptor, bytes.data(), bytes.size());
    if (size > 0) {
      const Status taken = take(std::span(bytes.data(), static_cast<size_t>(size)));
      if (taken.ok()) continue;
      close_once(descriptor);
      return taken;
    }
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    close_once(descriptor);  // end of input; an error if a terminal's other side is gone
  }
  return Status(StatusCode::kCancelled, "the other side has ended");
}

}  // namespace forerun
