#include "supervisor/lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace forerun {
namespace {

void make_non_blocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

void close_once(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

Status LineCutter::push(std::string_view bytes, std::vector<std::string>& lines) {
  while (!bytes.empty() && !too_long_) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    too_long_ = rest_.size() + part.size() > longest_;
    if (too_long_) break;
    rest_ += part;
    if (end == std::string_view::npos) return {};
    bytes.remove_prefix(end + 1);
    if (rest_.ends_with('\r')) rest_.pop_back();
    if (!rest_.empty()) lines.push_back(std::exchange(rest_, {}));
  }
  if (!too_long_) return {};
  rest_.clear();
  return Status(StatusCode::kCorrupt, "found a line of more than " + std::to_string(longest_) +
                                          " bytes; accepted: shorter ones");
}

LineReader::LineReader(int descriptor, size_t longest) : descriptor_(descriptor), cutter_(longest) {
  make_non_blocking(descriptor);
}
LineReader::~LineReader() { close(); }
void LineReader::close() { close_once(descriptor_); }

Status LineReader::read(std::vector<std::string>& lines) {
  std::array<char, 65536> bytes;
  while (descriptor_ >= 0) {
    const ssize_t size = ::read(descriptor_, bytes.data(), bytes.size());
    if (size > 0) {
      const Status cut = cutter_.push({bytes.data(), static_cast<size_t>(size)}, lines);
      if (cut.ok()) continue;
      close();
      return cut;
    }
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    // The end; of a terminal whose other side is gone it is an error.
    if (!cutter_.rest().empty()) lines.push_back(cutter_.rest());
    close();
  }
  return Status(StatusCode::kCancelled, "the other side has ended");
}

LineWriter::LineWriter(int descriptor) : descriptor_(descriptor) { make_non_blocking(descriptor); }
LineWriter::~LineWriter() { close(); }

void LineWriter::close() {
  close_once(descriptor_);
  queue_.clear();
  written_ = 0;
}

void LineWriter::push(std::string line) {
  if (descriptor_ < 0) return;
  line += '\n';
  queue_.push_back(std::move(line));
}

Status LineWriter::write() {
  while (!queue_.empty()) {
    const std::string& line = queue_.front();
    const ssize_t size = ::write(descriptor_, line.data() + written_, line.size() - written_);
    if (size < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      close();
      return Status(StatusCode::kCancelled,
                    std::string("the other side does not read: ") + std::strerror(errno));
    }
    written_ += static_cast<size_t>(size);
    if (written_ < line.size()) continue;
    queue_.pop_front();
    written_ = 0;
  }
  return {};
}

}  // namespace forerun
