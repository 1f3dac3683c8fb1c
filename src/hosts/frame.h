// The header of every message between the processes of a launch: a magic number, the version of the
// format, the launch's generation, the kind of the message and the length of its payload.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/status.h"
#include "hosts/bytes.h"

namespace forerun {

// The version of the format of frame headers, greetings and reports. Processes read these before
// they compare their builds (engine/load/host_agreement.cc refuses another build), so it must
// change whenever one of these formats does.
inline constexpr uint16_t kFrameVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 23;
// Far above need: the rows of a prompt in the widest models take a hundredth of this.
inline constexpr size_t kMaxFrameBytes = size_t{1} << 30;

enum class FrameKind : uint8_t {
  kPing,      // the sender is alive
  kGreeting,  // the coordinator's first message: the launch's secret and its generation
  kReport,    // to the coordinator: a stage's report (hosts.h)
  kNotice,    // from the coordinator to all stages
  kEnd,       // from the coordinator: the launch is over
  kLost,      // to the coordinator: the sender cannot go on, and why
  kStep,      // to a stage: a StageMessage
  kTasks,     // to the last stage: what the Step's rows want
  kDrop,      // to every stage: rows that may be left out
  kEntered,   // to the coordinator: a stage other than the last is done with a Step
  kRetired,   // to the coordinator: a Step's answers
};
inline constexpr uint8_t kLastFrameKind = static_cast<uint8_t>(FrameKind::kRetired);
// Whether frames of this kind belong to Steps; all others start or end a launch.
inline bool is_of_steps(FrameKind kind) { return kind >= FrameKind::kStep; }

struct FrameHeader {
  FrameKind kind = FrameKind::kPing;
  uint64_t generation = 0;
};

// Returns the header of a frame; the caller appends the payload to it.
Bytes begin_frame(const FrameHeader& header);
// Writes the payload's length into the header, once the whole payload has been appended.
void end_frame(Bytes& frame);
// Reads the header of a whole frame; the payload starts at kFrameHeaderBytes. Fails with kCorrupt
// if the magic number, version or length is wrong; the message names both versions or lengths.
Result<FrameHeader> read_frame(std::span<const std::byte> frame);

}  // namespace forerun
