// Options of a supervisor: what it starts, and how long it waits.
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
  // The host of every process of the launch by rank, the coordinator's first; for messages.
  std::vector<std::string> hosts;
  // The program and arguments that start a launch whose coordinator runs serve_engine() on its
  // standard input and output. `folder`: launch_folder.h.
  std::function<std::vector<std::string>(const std::string& folder)> command;

  // The coordinator is lost if it has sent nothing for so long.
  std::chrono::milliseconds longest_silence{10000};
  // The time until its first message.
  std::chrono::milliseconds start_timeout{120000};
  // A launch that is to end has end_timeout to do so by itself, and kill_timeout after SIGTERM.
  std::chrono::milliseconds end_timeout{5000};
  std::chrono::milliseconds kill_timeout{3000};
  // So many failures within RelaunchTimes::forgiven_after, with no work done between them, are
  // followed by another start; one more ends the engine.
  int32_t relaunches = 10;
  RelaunchTimes times;
  // A request may be the cause of a launch's death. If true, a request fails once kMaxDeaths
  // launches in a row have died before it gave a token; in the last of them it is the only such
  // request.
  bool doubts_requests = false;
  static constexpr int kMaxDeaths = 3;

  // Returns a command that ends with 0 if a host can take part in a launch; null: hosts are not
  // asked. `folder`: launch_folder.h.
  std::function<std::vector<std::string>(const std::string& host, const std::string& folder)> ask;
  // A host that has not answered within this time is away.
  std::chrono::milliseconds answer_timeout{15000};
  // The pause before a host is asked again; doubles each time, up to longest_question_pause.
  std::chrono::milliseconds first_question_pause{500};
  std::chrono::milliseconds longest_question_pause{10000};

  // How long a request without a deadline waits for a launch.
  std::chrono::milliseconds longest_wait = std::chrono::minutes(10);
  // EngineCondition is kAway once no launch has been up for this long.
  std::chrono::milliseconds soon{10000};

  // Called now and then while the first launch starts; if it returns true, the start is cancelled.
  // Null: it is never cancelled.
  std::function<bool()> is_cancelled;
};

}  // namespace forerun
