// What a supervisor is to start, and how patient it is.
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
  // Of the launch's engine; its `hosts` and `trace` are not looked at.
  EngineOptions engine;
  // Of every process of the launch by rank, the coordinator's first: for messages.
  std::vector<std::string> hosts;
  // The program and arguments that start a launch whose coordinator runs serve_engine() on its
  // standard input and output. `folder`: launch_folder.h.
  std::function<std::vector<std::string>(const std::string& folder)> command;

  // The coordinator is lost when nothing has been heard of it for so long.
  std::chrono::milliseconds longest_silence{10000};
  // Until it has said its first word.
  std::chrono::milliseconds start_timeout{120000};
  // A launch that ends has so long to do it by itself, and again after SIGTERM.
  std::chrono::milliseconds end_timeout{5000};
  std::chrono::milliseconds kill_timeout{3000};
  // So many failures are followed by another start; more, within RelaunchTimes::forgiven_after and
  // with nothing done between, by none.
  int32_t relaunches = 10;
  RelaunchTimes times;
  // What a launch dies of may be a request rather than a machine: one that was given to kMostDeaths
  // launches which died before it put out a token is failed, and the last of these times no other
  // was in that state.
  bool doubts_requests = false;
  static constexpr int kMostDeaths = 3;

  // A command that ends with 0 where a host can take part in a launch; null: hosts are not asked.
  // `folder`: launch_folder.h.
  std::function<std::vector<std::string>(const std::string& host, const std::string& folder)> ask;
  // A host that has not answered by then is away.
  std::chrono::milliseconds answer_timeout{15000};
  // Before it is asked again, twice as long each time.
  std::chrono::milliseconds first_question_pause{500};
  std::chrono::milliseconds longest_question_pause{10000};

  // A request without a deadline waits so long for a launch.
  std::chrono::milliseconds longest_wait = std::chrono::minutes(10);
  // EngineCondition::kAway where no launch has been up for so long.
  std::chrono::milliseconds soon{10000};

  // Asked now and then while the first launch starts; true: it is not to. Null: never.
  std::function<bool()> is_cancelled;
};

}  // namespace forerun
