// Fuzzes all readers of messages between a supervisor and its launch. An accepted message must be
// written as the same bytes. The first byte selects the reader and the kind of message.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "supervisor/message.h"
#include "wire/frame.h"
#include "wire/frame_cutter.h"

namespace forerun {
namespace {

void check_same(const Bytes& written, std::span<const std::byte> read) {
  if (!std::equal(written.begin(), written.end(), read.begin(), read.end())) std::abort();
}

// Puts the payload in a valid frame, since few inputs get past its header.
void read_payload(uint8_t kind, std::span<const std::byte> payload) {
  Bytes frame = begin_frame({.kind = kind});
  frame.insert(frame.end(), payload.begin(), payload.end());
  end_frame(frame);
  const auto down = read_down_message(frame);
  if (down.ok()) check_same(write_message(*down), frame);
  const auto up = read_up_message(frame);
  if (up.ok()) check_same(write_message(*up), frame);
}

// A stream must give the same frames and text in one piece and in two.
void cut(std::span<const std::byte> stream) {
  constexpr size_t kLongest = 1 << 16;
  FrameCutter whole(kLongest), halves(kLongest);
  std::vector<Bytes> frames, frames_of_halves;
  std::string text, text_of_halves;
  const Status status = whole.push(stream, frames, text);
  const size_t middle = stream.size() / 2;
  Status second = halves.push(stream.first(middle), frames_of_halves, text_of_halves);
  if (second.ok()) second = halves.push(stream.subspan(middle), frames_of_halves, text_of_halves);
  if (second.ok() != status.ok() || frames != frames_of_halves) std::abort();
  if (text + whole.held_text() != text_of_halves + halves.held_text()) std::abort();
  for (const Bytes& frame : frames) {
    if (!read_frame(frame, 0xff).ok()) std::abort();
  }
}

}  // namespace
}  // namespace forerun

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forerun;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  constexpr uint8_t kKinds = 1 + std::max(static_cast<uint8_t>(DownMessage::kLastKind),
                                          static_cast<uint8_t>(UpMessage::kLastKind));
  if (data[0] < 2 * kKinds) {
    read_payload(data[0] % kKinds, bytes);
  } else if (data[0] % 2 == 0) {
    cut(bytes);
  } else {
    const auto options = read_options(bytes);
    if (options.ok()) check_same(write_options(*options), bytes);
  }
  return 0;
}
