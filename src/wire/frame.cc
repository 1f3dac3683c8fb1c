#include "wire/frame.h"

#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

constexpr uint32_t kMark = 0x4e525246;  // "FRRN"
constexpr size_t kLengthAt = kFrameHeaderBytes - sizeof(uint64_t);

struct WholeHeader {
  uint32_t mark = kMark;
  uint16_t version = kFrameVersion;
  FrameHeader rest;
  uint64_t length = 0;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<WholeHeader> auto& header) {
  visit("mark", header.mark);
  if (header.mark != kMark) {
    return visit.fail("mark", "found bytes that are not a message of Forerun");
  }
  visit("version", header.version);
  if (header.version != kFrameVersion) {
    return visit.fail("version", "found " + std::to_string(header.version) +
                                     "; accepted: " + std::to_string(kFrameVersion) +
                                     " (the sender is another version of Forerun)");
  }
  visit("kind", header.rest.kind);
  visit("generation", header.rest.generation);
  visit("length", header.length);
}

}  // namespace

Bytes begin_frame(const FrameHeader& header) {
  Bytes frame;
  WireWriter to(&frame);
  WholeHeader whole;
  whole.rest = header;
  visit_fields(to, whole);
  return frame;
}

void end_frame(Bytes& frame) {
  const uint64_t length = frame.size() - kFrameHeaderBytes;
  std::memcpy(frame.data() + kLengthAt, &length, sizeof(length));
}

Result<FrameHeader> read_frame(std::span<const std::byte> frame, uint8_t last_kind) {
  WireReader from(frame);
  WholeHeader header;
  visit_fields(from, header);
  FORERUN_RETURN_IF_ERROR(from.status());
  if (header.rest.kind > last_kind) {
    from.fail("kind", "found " + std::to_string(header.rest.kind) + "; accepted: 0 to " +
                          std::to_string(last_kind));
  }
  const size_t payload = frame.size() - kFrameHeaderBytes;
  if (header.length != payload) {
    from.fail("length", "found " + std::to_string(header.length) +
                            "; accepted: " + std::to_string(payload) + ", the bytes that follow");
  }
  if (!from.ok()) return from.status();
  return header.rest;
}

Result<uint64_t> frame_payload_bytes(std::span<const std::byte> bytes) {
  WireReader from(bytes.first(kFrameHeaderBytes));
  WholeHeader header;
  visit_fields(from, header);
  FORERUN_RETURN_IF_ERROR(from.status());
  return header.length;
}

std::span<const std::byte> frame_mark() { return std::as_bytes(std::span(&kMark, 1)); }

}  // namespace forerun
