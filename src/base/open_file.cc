#include "base/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace forerun {

OpenFile::OpenFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    status_ = Status(StatusCode::kNotFound, path_.string() + ": " + std::strerror(errno));
  }
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status OpenFile::read(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Status(
          StatusCode::kCorrupt,
          path_.string() + ": " +
              (count < 0 ? std::strerror(errno) : "it has become shorter since it was opened"));
    }
    to = to.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return {};
}

}  // namespace forerun
