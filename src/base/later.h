// Moments that lie some duration ahead, whatever the duration: durations come from callers, and
// "as long as possible" is a usual one.
#pragma once

#include <chrono>

namespace forerun {

// `from` + `by`; the last moment that the clock has where that would lie behind it, and `from`
// itself where `by` is negative.
template <class Clock, class Duration, class Rep, class Period>
std::chrono::time_point<Clock, Duration> later(std::chrono::time_point<Clock, Duration> from,
                                               std::chrono::duration<Rep, Period> by) {
  using Moment = std::chrono::time_point<Clock, Duration>;
  using By = std::chrono::duration<Rep, Period>;
  if (by <= By::zero()) return from;
  const Duration most = Moment::max() - from;
  // In the coarser of both units, so that neither overflows.
  if constexpr (std::ratio_less_equal_v<typename Duration::period, Period>) {
    if (by >= std::chrono::duration_cast<By>(most)) return Moment::max();
  } else {
    if (std::chrono::duration_cast<Duration>(by) >= most) return Moment::max();
  }
  return from + std::chrono::duration_cast<Duration>(by);
}

}  // namespace forerun
