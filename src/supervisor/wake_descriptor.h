// Wakes a thread that waits in poll(2).
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace forerun {

// wake() may be called from any thread. If the process has no descriptor left, wake() does nothing;
// the waiting thread then wakes up at its timeout, which every wait has.
class WakeDescriptor {
 public:
  WakeDescriptor() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~WakeDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  WakeDescriptor(const WakeDescriptor&) = delete;
  WakeDescriptor& operator=(const WakeDescriptor&) = delete;

  void wake() const {
    const uint64_t increment = 1;
    [[maybe_unused]] const ssize_t written = ::write(descriptor_, &increment, sizeof(increment));
  }
  // Readable after wake(), until clear().
  int descriptor() const { return descriptor_; }
  void clear() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(descriptor_, &count, sizeof(count));
  }

 private:
  const int descriptor_;
};

}  // namespace forerun
