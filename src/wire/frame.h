// The header of every message between the processes of a launch: a magic number, the version of the
// format, the kind of the message, the launch's generation and the length of its payload.
//
// Thread rules: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

// The version of all formats that processes read before they compare their builds: frame headers,
// texts and a Status (wire_writer.h), greetings and reports (hosts), pings and refusals
// (supervisor). It must change whenever one of these formats changes. engine/load/host_agreement.cc
// and the supervisor's first message refuse another build.
inline constexpr uint16_t kFrameVersion = 4;
inline constexpr size_t kFrameHeaderBytes = 23;

struct FrameHeader {
  uint8_t kind = 0;         // an enumerator defined by the sender's module
  uint64_t generation = 0;  // the launch's generation (hosts/messenger.h); 0 outside a launch
};

// Returns the header of a frame; the caller appends the payload to it.
Bytes begin_frame(const FrameHeader& header);
// Writes the payload's length into the header, once the whole payload has been appended.
void end_frame(Bytes& frame);
// Reads the header of a whole frame; the payload starts at kFrameHeaderBytes. `last_kind` is the
// highest accepted kind. Fails with kCorrupt if the magic number, version, kind or length is wrong;
// the message says what was found and what is accepted.
Result<FrameHeader> read_frame(std::span<const std::byte> frame, uint8_t last_kind);

// Returns the payload's length of the frame that begins with `bytes`, which must hold its whole
// header. Fails as read_frame() does if the magic number or version is wrong.
Result<uint64_t> frame_payload_bytes(std::span<const std::byte> bytes);
// Returns the magic number as the bytes that a link carries.
std::span<const std::byte> frame_mark();

}  // namespace forerun
