// Ends this process when the one that has started it is gone.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace forerun::app {

// A process of a launch is nothing without mpirun, or mpirun's daemon on another host. Where that
// dies the system kills this one, and where the system does not, this one notices itself, also when
// it has been stopped meanwhile: it ends by its first look, with exit code 1, and its memory is
// free.
class ParentWatch {
 public:
  ParentWatch();
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace forerun::app
