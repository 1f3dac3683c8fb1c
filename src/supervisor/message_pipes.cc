#include "supervisor/message_pipes.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "supervisor/descriptors.h"

namespace forerun {

MessageReader::MessageReader(int descriptor, size_t longest)
    : descriptor_(descriptor), frames_(longest) {
  make_non_blocking(descriptor);
}
MessageReader::~MessageReader() { close(); }
void MessageReader::close() { close_once(descriptor_); }

Status MessageReader::read(std::vector<Bytes>& frames, std::vector<std::string>& lines) {
  const bool was_open = descriptor_ >= 0;
  const Status status = read_available(descriptor_, [&](std::span<const char> bytes) {
    return cut(std::as_bytes(bytes), frames, lines);
  });
  if (was_open && status.code() == StatusCode::kCancelled) {
    const Status last = lines_.push(frames_.held_text() + '\n', lines);
    if (!last.ok()) return last;
  }
  return status;
}

Status MessageReader::cut(std::span<const std::byte> bytes, std::vector<Bytes>& frames,
                          std::vector<std::string>& lines) {
  const bool had_seen_frame = frames_.has_seen_frame();
  std::string text;
  const Status status = frames_.push(bytes, frames, text);
  if (had_seen_frame) return status;
  if (frames_.has_seen_frame()) text += '\n';  // the last line ends where a frame begins
  FORERUN_RETURN_IF_ERROR(lines_.push(text, lines));
  return status;
}

MessageWriter::MessageWriter(int descriptor) : descriptor_(descriptor) {
  make_non_blocking(descriptor);
}
MessageWriter::~MessageWriter() { close(); }

void MessageWriter::close() {
  close_once(descriptor_);
  queue_.clear();
  written_ = 0;
}

void MessageWriter::push(Bytes frame) {
  if (descriptor_ >= 0) queue_.push_back(std::move(frame));
}

Status MessageWriter::write() {
  while (!queue_.empty()) {
    const Bytes& frame = queue_.front();
    const ssize_t size = ::write(descriptor_, frame.data() + written_, frame.size() - written_);
    if (size < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      close();
      return Status(StatusCode::kCancelled,
                    std::string("the other side does not read: ") + std::strerror(errno));
    }
    written_ += static_cast<size_t>(size);
    if (written_ < frame.size()) continue;
    queue_.pop_front();
    written_ = 0;
  }
  return {};
}

}  // namespace forerun
