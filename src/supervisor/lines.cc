#include "supervisor/lines.h"

#include <utility>

#include "supervisor/descriptors.h"

namespace forerun {

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
  return Status(StatusCode::kCorrupt, "found a line that is too long; accepted: up to " +
                                          std::to_string(longest_) + " bytes");
}

LineReader::LineReader(int descriptor, size_t longest) : descriptor_(descriptor), cutter_(longest) {
  make_non_blocking(descriptor);
}
LineReader::~LineReader() { close(); }
void LineReader::close() { close_once(descriptor_); }

Status LineReader::read(std::vector<std::string>& lines) {
  const bool was_open = descriptor_ >= 0;
  const Status status = read_available(descriptor_, [&](std::span<const char> bytes) {
    return cutter_.push({bytes.data(), bytes.size()}, lines);
  });
  const bool has_ended = was_open && status.code() == StatusCode::kCancelled;
  if (has_ended && !cutter_.rest().empty()) lines.push_back(cutter_.rest());
  return status;
}

}  // namespace forerun
