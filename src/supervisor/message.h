// The messages between a supervisor and the coordinator of its launch, each a frame
// (wire/frame.h).
//
// Readers check all input: bytes that are not a message, or lack a field, are an error; its message
// names the field, what was found and what is accepted. Both sides must be of the same build; the
// supervisor's first message has its build.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "forerun/engine.h"
#include "wire/bytes.h"

namespace forerun {

// A message from the supervisor to the launch.
struct DownMessage {
  enum class Kind : uint8_t {
    kPing,         // the supervisor is alive
    kHello,        // the first message: options, silence
    kSubmit,       // call, id, request
    kSpeculation,  // call, id, speculation: as RequestHandle::change_speculation
    kPrepare,      // call, format, quick: as Engine::prepare_format
    kCancel,       // id
    kEnd,          // the launch must leave
  };
  static constexpr Kind kLastKind = Kind::kEnd;
  Kind kind = Kind::kPing;
  uint64_t id = 0;    // number of a request; the supervisor chooses it
  uint64_t call = 0;  // number that the launch's answer repeats
  EngineOptions options;
  std::chrono::milliseconds silence{0};  // silence after which either side considers the other lost
  Request request;
  SpeculationOptions speculation;
  OutputFormat format;
  bool quick = false;
};

// The state that an engine reports regularly.
struct EngineState {
  EngineLoad load;
  EmulationStats emulation;
  int64_t kv_blocks = 0;
};

// A message from the launch to the supervisor.
struct UpMessage {
  enum class Kind : uint8_t {
    kPing,      // the launch is alive
    kProgress,  // text, fraction: the part that is loading
    kReady,     // info
    kRefused,   // status: the reason why the engine cannot be made
    kState,     // state
    kAnswer,    // call, status, result
    kEvent,     // id, event
    kFailure,   // status, rank: the reason why the launch cannot go on
  };
  static constexpr Kind kLastKind = Kind::kFailure;
  Kind kind = Kind::kPing;
  uint64_t id = 0;
  uint64_t call = 0;
  Status status;
  bool result = true;           // kAnswer to kPrepare: the result of prepare_format()
  std::optional<int32_t> rank;  // kFailure: the rank where it began
  EngineInfo info;
  EngineState state;
  Event event;
  std::string text;
  double fraction = 0.0;
};

// Messages with a longer payload are refused: a prompt of a million tokens takes 4 MB.
inline constexpr size_t kLongestMessage = size_t{64} << 20;

// Returns the message as a frame, without the fields that its kind does not carry.
Bytes write_message(const DownMessage& message);
Bytes write_message(const UpMessage& message);

// Reads a whole frame. Fails with kCorrupt, naming the field, if write_message() could not have
// written it.
Result<DownMessage> read_down_message(std::span<const std::byte> frame);
Result<UpMessage> read_up_message(std::span<const std::byte> frame);

// Writes only EngineOptions, without `hosts` and `on_progress`, for the processes of a launch that
// do not communicate with the supervisor. Reading fails with kCorrupt as above.
Bytes write_options(const EngineOptions& options);
Result<EngineOptions> read_options(std::span<const std::byte> bytes);

}  // namespace forerun
