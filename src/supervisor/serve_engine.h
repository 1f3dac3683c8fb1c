// The coordinator's side of a supervised launch: an engine that is asked over a descriptor and
// answers over another (message.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "forerun/engine.h"

namespace forerun {

// Why a launch cannot go on (ok: it can), and the rank that the failure began with, where that is
// known.
struct LostLaunch {
  Status status;
  std::optional<int32_t> rank;
};

struct ServedEngine {
  // Owned from here on. A supervisor's standard ones, by way of mpirun.
  int input = -1;
  int output = -1;
  // Makes the engine from what the supervisor asks for; on a thread of its own, which says what is
  // loading meanwhile.
  std::function<Result<std::unique_ptr<Engine>>(const EngineOptions&)> create;
  // Not ok, and why: others of the launch are lost, and nothing more will come of it. Null: never.
  std::function<LostLaunch()> failure;
};

// Serves until the supervisor says that it is enough (ok). Not ok where it has left, is silent for
// much longer than it would bear itself, sends what is no message, where the engine cannot be made,
// or the launch has failed; what the supervisor can use of that it has been told. The engine is
// gone then, unless it was still being made: then the process ends here (exit code 1), since making
// it cannot be called off.
Status serve_engine(const ServedEngine& served);

}  // namespace forerun
