// What every message between the processes of a launch begins with: a mark, the version of all that
// follows, whose launch it belongs to, what it is and how long.
#pragma once

#include <cstdint>
#include <span>

#include "forerun/status.h"
#include "hosts/bytes.h"

namespace forerun {

// The version of the format of frame headers, greetings and reports. Processes read these before
// they compare their builds (engine/host_agreement.cc refuses another build), so it must change
// whenever one of these formats does.
inline constexpr uint16_t kFrameVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 23;
// Far above need: the rows of a prompt in the widest models take a hundredth of this.
inline constexpr size_t kMaxFrameBytes = size_t{1} << 30;

enum class FrameKind : uint8_t {
  kPing,      // who sends it is alive
  kGreeting,  // the coordinator's first: the launch's secret and its generation
  kReport,    // to the coordinator: what it gathers (hosts.h)
  kNotice,    // from the coordinator: what it tells all
  kEnd,       // from the coordinator: the launch is over
  kLost,      // to the coordinator: who sends it cannot go on, and why
  kStep,      // to a stage: a StageMessage
  kTasks,     // to the last stage: what the Step's rows want
  kDrop,      // to every stage: rows that may be left out
  kEntered,   // to the coordinator: a stage other than the last is done with a Step
  kRetired,   // to the coordinator: a Step's answers
};
inline constexpr uint8_t kLastFrameKind = static_cast<uint8_t>(FrameKind::kRetired);
// The others are of the start and the end of a launch.
inline bool is_of_steps(FrameKind kind) { return kind >= FrameKind::kStep; }

struct FrameHeader {
  FrameKind kind = FrameKind::kPing;
  uint64_t generation = 0;
};

// The header of a frame whose payload is to follow in the same bytes.
Bytes begin_frame(const FrameHeader& header);
// Notes the payload's length, once all of it is there.
void end_frame(Bytes& frame);
// The header of a whole frame; kCorrupt, naming both versions or lengths, where it is none of ours.
// The payload is what follows kFrameHeaderBytes.
Result<FrameHeader> read_frame(std::span<const std::byte> frame);

}  // namespace forerun
