#include "parent_watch.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

namespace forerun::app {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{200};

}  // namespace

ParentWatch::ParentWatch() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  thread_ = std::thread([this, parent = getppid()] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kBetweenLooks, [this] { return stopping_; })) {
      if (getppid() != parent) _exit(1);
    }
  });
}

ParentWatch::~ParentWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace forerun::app
