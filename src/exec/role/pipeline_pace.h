// When the next Step had better enter a pipeline of stages: not shortly before a result. The result
// of a Step may be a miss, and what follows from it would then wait until the first stage has ended
// the Step that it has just begun. Where the first stage ends eight and a quarter Steps in the time
// of a pass, a Step that entered at once would hold up each of eight results by three quarters of a
// stage's time. It waits for the first of them, a quarter of that time, and then all eight come
// when the first stage becomes free.
//
// Pure arithmetic over the times of Steps, in nanoseconds of one clock.
#pragma once

#include <cmath>
#include <cstdint>

namespace forerun {

class PipelinePace {
 public:
  // A Step some of whose rows were needed to the end has retired: when the first stage began with
  // it, when that stage was free again, and when the Step was back.
  void observe(int64_t start_ns, int64_t entered_ns, int64_t end_ns);
  // Whether a Step that left the first stage at `entered_ns` is due at about `now_ns`: less than
  // half of the first stage's time later, or earlier. False until a Step has retired.
  bool is_due(int64_t entered_ns, int64_t now_ns) const {
    const double left_ns = static_cast<double>(entered_ns - now_ns) + rest_ns_;
    return std::abs(left_ns) < 0.5 * entry_ns_;
  }

 private:
  // Means that fade: a Step's time at the first stage, and from there until it is back.
  double entry_ns_ = 0.0, rest_ns_ = 0.0;
};

}  // namespace forerun
