// The messages between a supervisor and the coordinator of its launch: one JSON object a line.
//
// Readers check everything: a line that is no message, or lacks a field, is an error that names
// what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/engine.h"

namespace forerun {

// From the supervisor to the launch.
struct DownMessage {
  enum class Kind : uint8_t {
    kPing,         // the supervisor is alive
    kHello,        // the first message: options, silence
    kSubmit,       // call, id, request
    kSpeculation,  // call, id, speculation: as RequestHandle::change_speculation
    kPrepare,      // call, format, quick: as Engine::prepare_format
    kCancel,       // id
    kEnd,          // the launch is to leave
  };
  Kind kind = Kind::kPing;
  uint64_t id = 0;    // of a request; the supervisor's choice
  uint64_t call = 0;  // the number that the launch's answer carries
  EngineOptions options;
  std::chrono::milliseconds silence{0};  // after which either side takes the other for lost
  Request request;
  SpeculationOptions speculation;
  OutputFormat format;
  bool quick = false;
};

// What an engine reports about itself from time to time.
struct EngineState {
  EngineLoad load;
  EmulationStats emulation;
  int64_t kv_blocks = 0;
};

// From the launch to the supervisor.
struct UpMessage {
  enum class Kind : uint8_t {
    kPing,      // the launch is alive
    kProgress,  // text, fraction: what is loading
    kReady,     // info
    kRefused,   // status: why the engine cannot be made
    kState,     // state
    kAnswer,    // call, status, result
    kEvent,     // id, event
    kFailure,   // status, rank: why the launch cannot go on
  };
  Kind kind = Kind::kPing;
  uint64_t id = 0;
  uint64_t call = 0;
  Status status;
  bool result = true;           // kAnswer to kPrepare: what prepare_format() has returned
  std::optional<int32_t> rank;  // kFailure: the rank that it began with
  EngineInfo info;
  EngineState state;
  Event event;
  std::string text;
  double fraction = 0.0;
};

// Returns the message as a line, without the line's end and without the fields that its kind does
// not carry.
std::string write_message(const DownMessage& message);
std::string write_message(const UpMessage& message);

// Fails with kCorrupt, naming the field, if write_message() could not have written the line.
Result<DownMessage> read_down_message(std::string_view line);
Result<UpMessage> read_up_message(std::string_view line);

// Writes EngineOptions alone, without `hosts` and `on_progress`, for the processes of a launch that
// the supervisor does not speak with.
std::string write_options(const EngineOptions& options);
Result<EngineOptions> read_options(std::string_view text);

}  // namespace forerun
