// Splits a stream of bytes into frames. Text may come before the first frame, such as the output of
// the program that starts the sender.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

class FrameCutter {
 public:
  // Frames with a longer payload are refused.
  explicit FrameCutter(size_t longest_payload) : longest_payload_(longest_payload) {}

  // Appends the frames that are now complete to `frames`, and text before the first frame to
  // `text`. Allocates memory only in proportion to the bytes received, not to the lengths they
  // claim. Fails with kCorrupt if something other than a frame of this version follows a frame, or
  // if a frame is too long; all later bytes are ignored.
  Status push(std::span<const std::byte> bytes, std::vector<Bytes>& frames, std::string& text);
  bool has_seen_frame() const { return has_seen_frame_; }
  // Returns the text that push() has held back because a frame could begin with it. If the stream
  // ends, it is text.
  std::string held_text() const;

 private:
  // Moves text from the beginning of rest_ to `text`, up to a magic number or a possible beginning
  // of one.
  void cut_text(std::string& text);
  // Cuts one frame off rest_ at `at` and advances `at`; returns whether the frame was complete.
  Result<bool> cut_frame(size_t& at, std::vector<Bytes>& frames);

  const size_t longest_payload_;
  Bytes rest_;  // received bytes that have not been cut yet
  bool has_seen_frame_ = false;
  Status failed_;
};

}  // namespace forerun
