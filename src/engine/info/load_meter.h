// LoadMeter measures an engine's load and decides how many more requests it accepts.
//
// The loop and the threads that submit report to it; any thread may read. One lock guards it and is
// held for a few stores.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "forerun/engine_load.h"
#include "forerun/status.h"
#include "strategies/strategy.h"

namespace forerun {

// Counts events per second over the last ten seconds, by whole seconds. The caller passes the time,
// in seconds that never decrease.
class RateMeter {
 public:
  explicit RateMeter(double now_s) : start_s_(now_s) {}
  void add(double now_s, int64_t count);
  double per_s(double now_s) const;

 private:
  static constexpr int64_t kWindow = 10;
  struct Second {
    int64_t second = -1;
    int64_t count = 0;
  };
  double start_s_;
  std::array<Second, kWindow> seconds_;
};

class LoadMeter {
 public:
  // `limit`: the largest number of requests that run and wait together; -1: no limit.
  explicit LoadMeter(int64_t limit);

  // A request's claim to run or wait, held until the object is destroyed or given back. The meter
  // must outlive it.
  class Place {
   public:
    Place() = default;
    explicit Place(LoadMeter* meter) : meter_(meter) {}
    Place(Place&& other) noexcept : meter_(std::exchange(other.meter_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      if (this != &other) {
        give_back();
        meter_ = std::exchange(other.meter_, nullptr);
      }
      return *this;
    }
    ~Place() { give_back(); }
    // Must be called when the request has ended.
    void give_back();

   private:
    LoadMeter* meter_ = nullptr;
  };
  // Takes either all of `count` places or none. Fails with kInvalidArgument if the limit is below
  // `count`, and with kOverloaded if too few places are free now.
  Result<std::vector<Place>> take_places(int32_t count);

  void set_running(size_t requests);
  void note_preemption();
  void note_draft_fault();
  void note_prompt(int64_t computed_tokens, int64_t reused_tokens);
  // Adds a request's progress since its last report.
  void note_progress(const char* strategy, int64_t output_tokens, const StrategyStats& before,
                     const StrategyStats& now);

  // Returns the load without the fields of KV memory.
  EngineLoad load() const;

 private:
  std::chrono::milliseconds retry_after(int32_t places, double now_s) const;

  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t places_ = 0;
  EngineLoad load_;
  RateMeter output_, prompt_;
  std::deque<double> ends_s_;  // times at which the last requests ended, oldest first
};

}  // namespace forerun
