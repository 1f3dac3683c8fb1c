// The coordinator's side of a supervised launch: serves an engine to the supervisor, which sends
// requests over one descriptor and reads answers from another (message.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "forerun/engine.h"

namespace forerun {

// The reason why a launch cannot go on (ok: it can), and the rank where the failure began, if
// known.
struct LostLaunch {
  Status status;
  std::optional<int32_t> rank;
};

struct ServedEngine {
  // The descriptors, which serve_engine() owns. The supervisor uses standard input and output,
  // which mpirun forwards.
  int input = -1;
  int output = -1;
  // Makes the engine from the supervisor's options. Called on a thread of its own, which reports
  // progress meanwhile.
  std::function<Result<std::unique_ptr<Engine>>(const EngineOptions&)> create;
  // Returns a failure once other processes of the launch are lost and it cannot go on. Null: it
  // never fails.
  std::function<LostLaunch()> failure;
};

// Serves until the supervisor ends the launch; returns ok then. Fails if the supervisor has left,
// is silent for much longer than it would tolerate itself, or sends an invalid message, and if the
// engine cannot be made or the launch has failed. The supervisor has been told of the failures that
// concern it. The engine is destroyed on return. If it is still being made, which cannot be
// cancelled, the process ends here with exit code 1.
Status serve_engine(const ServedEngine& served);

}  // namespace forerun
