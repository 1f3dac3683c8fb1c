// Ends this process when its parent is gone.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace forerun::app {

// A process of a launch cannot go on without its parent: mpirun or, on another host, mpirun's
// daemon. If the parent dies, the system kills this process. If the system does not, this process
// detects it by itself, even if it was stopped meanwhile, and ends with exit code 1.
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
