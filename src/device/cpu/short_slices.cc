#include "device/cpu/short_slices.h"

#if defined(__linux__)
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace forerun {

#if defined(__linux__) && defined(SYS_sched_setattr)

namespace {

// The kernel's struct sched_attr, which current C libraries do not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  // the time slice under the default policies
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

bool read(int thread, SchedulingAttributes& attributes) {
  const bool done = syscall(SYS_sched_getattr, thread, &attributes, sizeof(attributes), 0) == 0;
  attributes.size = sizeof(attributes);
  return done && (attributes.policy == SCHED_NORMAL || attributes.policy == SCHED_BATCH);
}

}  // namespace

bool ask_for_short_slices() {
  SchedulingAttributes attributes;
  if (!read(0, attributes)) return false;
  attributes.runtime_ns = static_cast<uint64_t>(std::chrono::nanoseconds(kShortSlice).count());
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && slice_length() == kShortSlice;
}

std::chrono::nanoseconds slice_length(int thread) {
  SchedulingAttributes attributes;
  if (!read(thread, attributes)) return {};
  return std::chrono::nanoseconds(attributes.runtime_ns);
}

#else

bool ask_for_short_slices() { return false; }
std::chrono::nanoseconds slice_length(int) { return {}; }

#endif

}  // namespace forerun
