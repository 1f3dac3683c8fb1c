// Threads that compile output formats, so that the thread that communicates with the supervisor is
// not delayed: one for formats that compile quickly, one for the others. See
// Engine::prepare_format.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "forerun/engine.h"
#include "supervisor/wake_descriptor.h"

namespace forerun {

class FormatThreads {
 public:
  enum class Effort : uint8_t {
    kQuick,       // only if that is quick
    kFull,        // on the second thread
    kQuickFirst,  // on the first thread, then, if that was not enough, on the second
  };
  struct Done {
    uint64_t number = 0;
    bool is_prepared = false;
  };

  // The engine must outlive the object.
  explicit FormatThreads(Engine& engine);
  // Waits for the running work; drops work that has not begun.
  ~FormatThreads();
  FormatThreads(const FormatThreads&) = delete;
  FormatThreads& operator=(const FormatThreads&) = delete;

  // `number` identifies the work in its Done.
  void post(uint64_t number, OutputFormat format, Effort effort);
  // Readable once some work is done.
  int descriptor() const { return waker_.descriptor(); }
  std::vector<Done> take();

 private:
  struct Job {
    uint64_t number = 0;
    OutputFormat format;
    Effort effort = Effort::kQuick;
  };
  void run(std::deque<Job>& jobs, bool quick);

  Engine& engine_;
  WakeDescriptor waker_;
  std::mutex mutex_;  // guards all members below except the threads
  std::condition_variable changed_;
  std::deque<Job> quick_, slow_;
  std::vector<Done> done_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace forerun
