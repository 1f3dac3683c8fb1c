#include "engine/loop/kept_arms.h"

#include <optional>

namespace forerun {
namespace {

constexpr std::chrono::seconds kPauseBetweenWrites{60};

}  // namespace

std::string KeptArms::recall() {
  const std::optional<MeasuredArms> kept = store_.find();
  if (!kept) return "";
  automatic_->recall(*kept);
  return "rates of auto's arms as measured by an earlier start\n";
}

void KeptArms::note_idle(std::chrono::steady_clock::time_point now) {
  if (now < next_) return;
  next_ = now + kPauseBetweenWrites;
  keep();
}

void KeptArms::keep() {
  const int64_t measurements = automatic_->measurements();
  if (measurements == kept_measurements_) return;
  kept_measurements_ = measurements;
  store_.keep(automatic_->measured());
}

}  // namespace forerun
