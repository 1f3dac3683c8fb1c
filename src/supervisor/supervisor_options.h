// Options of a supervisor: the command that it starts, and its timeouts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "supervisor/relaunch_policy.h"

namespace forerun {

struct SupervisorOptions {
  // Options of the launch's engine; `hosts` and `trace` in them are ignored.
  EngineOptions engine;
  // The host of every process of the launch, by rank, the coordinator's first; for messages.
  std::vector<std::string> hosts;
  // Returns the program and arguments that start a launch with a coordinator that runs
  // serve_engine() on its standard input and output. `folder`: see launch_folder.h.
  std::function<std::vector<std::string>(const std::string& folder)> command;

  // Silence after which the coordinator counts as lost.
  std::chrono::milliseconds longest_silence{10000};
  // The timeout of its first message.
  std::chrono::milliseconds start_timeout{120000};
  // The time that a launch has to end by itself, and then after SIGTERM.
  std::chrono::milliseconds end_timeout{5000};
  std::chrono::milliseconds kill_timeout{3000};
  // Number of failures within RelaunchTimes::forgiven_after, without progress between them, that
  // are followed by another start; one more ends the engine.
  int32_t relaunches = 10;
  RelaunchTimes times;
  // Whether a request may be blamed for a launch's death. If true, a request fails once kMaxDeaths
  // launches in a row have died before it received a token; in the last of them it is the only such
  // request.
  bool doubts_requests = false;
  static constexpr int kMaxDeaths = 3;

  // Returns a command that exits with 0 if a host can take part in a launch; null: hosts are not
  // asked. `folder`: see launch_folder.h.
  std::function<std::vector<std::string>(const std::string& host, const std::string& folder)> ask;
  // Time without an answer after which a host counts as away.
  std::chrono::milliseconds answer_timeout{15000};
  // The pause before a host is asked again; doubles each time, up to longest_question_pause.
  std::chrono::milliseconds first_question_pause{500};
  std::chrono::milliseconds longest_question_pause{10000};

  // The time that a request without a deadline waits for a launch.
  std::chrono::milliseconds longest_wait = std::chrono::minutes(10);
  // EngineCondition is kAway once there has been no launch for this long.
  std::chrono::milliseconds soon{10000};

  // Called regularly while the first launch starts; if it returns true, the start is cancelled.
  // Null: the start is never cancelled.
  std::function<bool()> is_cancelled;
};

}  // namespace forerun
