// Reads and writes messages over descriptors without blocking.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "supervisor/lines.h"
#include "supervisor/message.h"
#include "wire/bytes.h"
#include "wire/frame_cutter.h"

namespace forerun {

// Reads frames from a descriptor, and the lines of text that may come before the first one: mpirun
// also writes to the coordinator's output.
class MessageReader {
 public:
  // Owns the descriptor and makes it non-blocking. Frames with a longer payload are refused.
  explicit MessageReader(int descriptor, size_t longest = kLongestMessage);
  ~MessageReader();
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  // Appends the received frames and lines, without waiting. Fails with kCancelled at the end of the
  // input, where an incomplete frame is dropped, and with kCorrupt if FrameCutter or LineCutter
  // does; the descriptor is then closed.
  Status read(std::vector<Bytes>& frames, std::vector<std::string>& lines);
  // Returns the descriptor for poll(2); -1 once it has ended.
  int descriptor() const { return descriptor_; }
  void close();

 private:
  // Splits the received bytes into frames and lines.
  Status cut(std::span<const std::byte> bytes, std::vector<Bytes>& frames,
             std::vector<std::string>& lines);

  int descriptor_;
  FrameCutter frames_;
  LineCutter lines_;
};

// Writes frames to a descriptor as fast as its reader reads; queues the rest.
class MessageWriter {
 public:
  // Owns the descriptor and makes it non-blocking.
  explicit MessageWriter(int descriptor);
  ~MessageWriter();
  MessageWriter(const MessageWriter&) = delete;
  MessageWriter& operator=(const MessageWriter&) = delete;

  // Queues a frame. Does nothing once the reader is gone.
  void push(Bytes frame);
  // Writes as much as possible without waiting. Fails with kCancelled if the reader is gone.
  Status write();
  bool is_empty() const { return queue_.empty(); }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_;
  std::deque<Bytes> queue_;
  size_t written_ = 0;  // number of written bytes of the first message
};

}  // namespace forerun
