// The kinds of frames (wire/frame.h) between the hosts of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun {

// Far above any need: the rows of a prompt in the widest models take a hundredth of this.
inline constexpr size_t kMaxFrameBytes = size_t{1} << 30;

enum class FrameKind : uint8_t {
  kPing,      // the sender is alive
  kGreeting,  // the coordinator's first message: a Greeting and its generation
  kReport,    // to the coordinator: a GreetingAnswer, later an Outcome (launch_frames.h)
  kNotice,    // from the coordinator to all stages: an Outcome
  kEnd,       // from the coordinator: the launch is over, with the reason
  kLost,      // to the coordinator: the sender cannot go on (Loss)
  kChunkAsk,  // to the coordinator: a stage wants a chunk of a file (file_frames.h)
  kChunk,     // to a stage: the chunk
  kStep,      // to a stage: a Step's status and its StageMessage
  kTasks,     // to the last stage: the tasks of the Step's rows
  kDrop,      // to every stage: rows that may be dropped
  kEntered,   // to the coordinator: a stage other than the last has finished a Step
  kRetired,   // to the coordinator: a Step's answers
};
inline constexpr uint8_t kLastFrameKind = static_cast<uint8_t>(FrameKind::kRetired);
// Returns whether frames of this kind belong to Steps; all others start or end a launch.
inline bool is_of_steps(FrameKind kind) { return kind >= FrameKind::kStep; }

}  // namespace forerun
