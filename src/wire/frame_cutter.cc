#include "wire/frame_cutter.h"

#include <algorithm>

#include "base/status_macros.h"
#include "wire/frame.h"

namespace forerun {
namespace {

void append_text(std::span<const std::byte> bytes, std::string& text) {
  for (const std::byte byte : bytes) text += static_cast<char>(byte);
}

}  // namespace

Status FrameCutter::push(std::span<const std::byte> bytes, std::vector<Bytes>& frames,
                         std::string& text) {
  if (!failed_.ok()) return failed_;
  const size_t old_size = rest_.size();
  rest_.resize(old_size + bytes.size());
  std::copy(bytes.begin(), bytes.end(), rest_.begin() + static_cast<ptrdiff_t>(old_size));
  if (!has_seen_frame_) cut_text(text);
  if (!has_seen_frame_) return {};
  size_t at = 0;
  while (true) {
    const Result<bool> cut = cut_frame(at, frames);
    if (!cut.ok()) failed_ = cut.status();
    if (!cut.ok() || !*cut) break;
  }
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(at));
  if (!failed_.ok()) rest_ = {};
  return failed_;
}

std::string FrameCutter::held_text() const {
  std::string text;
  if (!has_seen_frame_) append_text(rest_, text);
  return text;
}

void FrameCutter::cut_text(std::string& text) {
  const std::span<const std::byte> mark = frame_mark();
  auto end = std::search(rest_.begin(), rest_.end(), mark.begin(), mark.end());
  has_seen_frame_ = end != rest_.end();
  if (!has_seen_frame_) {
    // The last bytes may be the beginning of a magic number.
    end -= static_cast<ptrdiff_t>(std::min(rest_.size(), mark.size() - 1));
    while (!std::equal(end, rest_.end(), mark.begin())) ++end;
  }
  append_text({rest_.begin(), end}, text);
  rest_.erase(rest_.begin(), end);
}

Result<bool> FrameCutter::cut_frame(size_t& at, std::vector<Bytes>& frames) {
  const std::span<const std::byte> rest = std::span<const std::byte>(rest_).subspan(at);
  const std::span<const std::byte> mark = frame_mark();
  const size_t compared = std::min(rest.size(), mark.size());
  if (!std::equal(mark.begin(), mark.begin() + static_cast<ptrdiff_t>(compared), rest.begin())) {
    return Status(StatusCode::kCorrupt,
                  "message: mark: found bytes that are not a message of "
                  "Forerun");
  }
  if (rest.size() < kFrameHeaderBytes) return false;
  FORERUN_ASSIGN_OR_RETURN(const uint64_t payload, frame_payload_bytes(rest));
  if (payload > longest_payload_) {
    return Status(StatusCode::kCorrupt, "message: length: found " + std::to_string(payload) +
                                            " bytes; accepted: up to " +
                                            std::to_string(longest_payload_));
  }
  const size_t length = kFrameHeaderBytes + static_cast<size_t>(payload);
  if (rest.size() < length) return false;
  frames.emplace_back(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(length));
  at += length;
  return true;
}

}  // namespace forerun
