// Reads lines of text from descriptors without blocking.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Longer than any line that a program writes about itself.
constexpr size_t kLongestLine = size_t{64} << 20;

// Splits a stream of bytes into lines.
class LineCutter {
 public:
  explicit LineCutter(size_t longest = kLongestLine) : longest_(longest) {}
  // Appends whole lines to `lines`, without their ends ("\n" or "\r\n"); skips empty lines. Fails
  // with kCorrupt if a line is too long; all later bytes are ignored.
  Status push(std::string_view bytes, std::vector<std::string>& lines);
  // Returns the beginning of the line that has not ended yet.
  const std::string& rest() const { return rest_; }

 private:
  const size_t longest_;
  std::string rest_;
  bool too_long_ = false;
};

// Reads lines from a descriptor.
class LineReader {
 public:
  // Owns the descriptor, which it makes non-blocking.
  explicit LineReader(int descriptor, size_t longest = kLongestLine);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Appends the received lines, without waiting. Fails with kCancelled at the end of the input and
  // with kCorrupt if LineCutter does; the descriptor is then closed.
  Status read(std::vector<std::string>& lines);
  // Returns the descriptor for poll(2); -1 once it has ended.
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_;
  LineCutter cutter_;
};

}  // namespace forerun
