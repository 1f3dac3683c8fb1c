// Lines over descriptors that never block: what has come, cut into lines, and what is to go.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// More than any message has: a prompt of a million tokens is 8 MB of numbers.
constexpr size_t kLongestLine = size_t{64} << 20;

// Cuts bytes, as they come, into lines.
class LineCutter {
 public:
  explicit LineCutter(size_t longest = kLongestLine) : longest_(longest) {}
  // Adds whole lines to `lines`, without their ends ("\n" or "\r\n"); empty ones are left out.
  // kCorrupt where one is longer than it may be; what comes after it is not looked at.
  Status push(std::string_view bytes, std::vector<std::string>& lines);
  // What has come of a line that has not ended.
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

  // Adds what there is, without waiting. kCancelled at the end, kCorrupt as of LineCutter; from
  // then on the descriptor is closed.
  Status read(std::vector<std::string>& lines);
  // For poll(2); -1 once it has ended.
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_;
  LineCutter cutter_;
};

// Writes lines to a descriptor, as far as whoever reads them keeps up; the rest waits here.
class LineWriter {
 public:
  // Owns the descriptor, which it makes non-blocking.
  explicit LineWriter(int descriptor);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Queues a line. Nothing happens once the reader is gone.
  void push(std::string line);
  // Writes what goes without waiting. kCancelled where the reader is gone.
  Status write();
  bool is_empty() const { return queue_.empty(); }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_;
  std::deque<std::string> queue_;
  size_t written_ = 0;  // of the first
};

}  // namespace forerun
