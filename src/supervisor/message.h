// What a supervisor and the coordinator of its launch say to each other: one JSON object a line.
//
// Nothing in a message is believed: a line that is no message, or lacks something, is an error that
// names what was found.
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
    kPing,         // the supervisor is there
    kHello,        // first of all: options, silence
    kSubmit,       // call, id, request
    kSpeculation,  // call, id, speculation: as RequestHandle::change_speculation
    kPrepare,      // call, format, quick: as Engine::prepare_format
    kCancel,       // id
    kEnd,          // the launch is to leave
  };
  Kind kind = Kind::kPing;
  uint64_t id = 0;    // of a request; the supervisor's choice
  uint64_t call = 0;  // that the launch answers
  EngineOptions options;
  std::chrono::milliseconds silence{0};  // after which either side takes the other for lost
  Request request;
  SpeculationOptions speculation;
  OutputFormat format;
  bool quick = false;
};

// What an engine says of itself from time to time.
struct EngineState {
  EngineLoad load;
  EmulationStats emulation;
  int64_t kv_blocks = 0;
};

// From the launch to the supervisor.
struct UpMessage {
  enum class Kind : uint8_t {
    kPing,      // the launch is there
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

// Without a line's end. What a kind does not carry is left out.
std::string write_message(const DownMessage& message);
std::string write_message(const UpMessage& message);

// kCorrupt, naming the field, where the line is none that write_message() gives.
Result<DownMessage> read_down_message(std::string_view line);
Result<UpMessage> read_up_message(std::string_view line);

// EngineOptions alone, for processes of a launch that the supervisor does not speak with. Of
// `hosts` and `on_progress` there is nothing.
std::string write_options(const EngineOptions& options);
Result<EngineOptions> read_options(std::string_view text);

}  // namespace forerun
