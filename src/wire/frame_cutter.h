// Cuts a stream of bytes into the frames that it consists of. In front of the first frame there may
// be text, such as that of the program that starts the sender.
//
// Thread rules: one at a time.
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

  // Appends frames that are whole by now to `frames`, and what has come in front of the first one
  // to `text`. Holds as much memory as bytes have come, whatever lengths they claim. Fails with
  // kCorrupt where a frame was to begin and none does, of this version, or where one is too long;
  // everything after that is ignored.
  Status push(std::span<const std::byte> bytes, std::vector<Bytes>& frames, std::string& text);
  bool has_seen_frame() const { return has_seen_frame_; }
  // Text that push() has kept back, since a frame could begin with it: if the stream ends, it is
  // text.
  std::string held_text() const;

 private:
  // Takes text from the beginning of rest_, up to a mark or what may become one.
  void cut_text(std::string& text);
  // Cuts one frame off rest_ at `at`, which moves behind it; returns whether there was a whole one.
  Result<bool> cut_frame(size_t& at, std::vector<Bytes>& frames);

  const size_t longest_payload_;
  Bytes rest_;  // what has come and is not cut yet
  bool has_seen_frame_ = false;
  Status failed_;
};

}  // namespace forerun
