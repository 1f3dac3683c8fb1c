// Adds a duration to a moment without overflow: durations come from callers, and many pass the
// largest one to say "as long as possible".
#pragma once

#include <chrono>

namespace forerun {

// Returns `from` + `by`; if the sum would overflow, the last moment of the clock; if `by` is
// negative, `from`.
template <class Clock, class Duration, class Rep, class Period>
std::chrono::time_point<Clock, Duration> later(std::chrono::time_point<Clock, Duration> from,
                                               std::chrono::duration<Rep, Period> by) {
  using Moment = std::chrono::time_point<Clock, Duration>;
  using By = std::chrono::duration<Rep, Period>;
  if (by <= By::zero()) return from;
  const Duration most = Moment::max() - from;
  // Compares in the coarser of the two units, so that neither side overflows.
  if constexpr (std::ratio_less_equal_v<typename Duration::period, Period>) {
    if (by >= std::chrono::duration_cast<By>(most)) return Moment::max();
  } else {
    if (std::chrono::duration_cast<Duration>(by) >= most) return Moment::max();
  }
  return from + std::chrono::duration_cast<Duration>(by);
}

}  // namespace forerun
