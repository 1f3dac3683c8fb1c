#include "hosts/frame.h"

#include <cstring>
#include <string>

namespace forerun {
namespace {

constexpr uint32_t kMark = 0x4e525246;  // "FRRN"
constexpr size_t kLengthAt = kFrameHeaderBytes - sizeof(uint64_t);

}  // namespace

Bytes begin_frame(const FrameHeader& header) {
  Bytes frame;
  ByteWriter to(&frame);
  to.number(kMark);
  to.number(kFrameVersion);
  to.number(static_cast<uint8_t>(header.kind));
  to.number(header.generation);
  to.number(uint64_t{0});
  return frame;
}

void end_frame(Bytes& frame) {
  const uint64_t length = frame.size() - kFrameHeaderBytes;
  std::memcpy(frame.data() + kLengthAt, &length, sizeof(length));
}

Result<FrameHeader> read_frame(std::span<const std::byte> frame) {
  ByteReader from(frame);
  if (from.number<uint32_t>("mark") != kMark) {
    from.fail("mark", "found bytes that are no message of Forerun's");
  }
  const auto version = from.number<uint16_t>("version");
  if (version != kFrameVersion) {
    from.fail("version", "found " + std::to_string(version) +
                             "; accepted: " + std::to_string(kFrameVersion) +
                             " (the sender is another version of Forerun)");
  }
  const auto kind = from.number<uint8_t>("kind");
  if (kind > kLastFrameKind) {
    from.fail("kind", "found " + std::to_string(kind) + "; accepted: 0 to " +
                          std::to_string(kLastFrameKind));
  }
  const auto generation = from.number<uint64_t>("generation");
  const auto length = from.number<uint64_t>("length");
  if (from.status().ok() && length != frame.size() - kFrameHeaderBytes) {
    from.fail("length", "found " + std::to_string(length) + ", there are " +
                            std::to_string(frame.size() - kFrameHeaderBytes) + " bytes");
  }
  if (!from.status().ok()) return from.status();
  return FrameHeader{static_cast<FrameKind>(kind), generation};
}

}  // namespace forerun
