#include "supervisor/format_threads.h"

#include <new>
#include <utility>

#include "base/background_thread.h"

namespace forerun {

FormatThreads::FormatThreads(Engine& engine) : engine_(engine) {
  threads_.emplace_back([this] { run(quick_, /*quick=*/true); });
  threads_.emplace_back([this] {
    run_in_background();
    run(slow_, /*quick=*/false);
  });
}

FormatThreads::~FormatThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void FormatThreads::post(uint64_t number, OutputFormat format, Effort effort) {
  {
    const std::lock_guard lock(mutex_);
    (effort == Effort::kFull ? slow_ : quick_).push_back({number, std::move(format), effort});
  }
  changed_.notify_all();
}

std::vector<FormatThreads::Done> FormatThreads::take() {
  waker_.clear();
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void FormatThreads::run(std::deque<Job>& jobs, bool quick) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !jobs.empty(); });
      if (stopped_) return;
      job = std::move(jobs.front());
      jobs.pop_front();
    }
    bool is_prepared = true;
    try {
      is_prepared = engine_.prepare_format(job.format, quick);
    } catch (const std::bad_alloc&) {
      // The request's submit() reports the lack of memory, or has enough memory again.
    }
    if (!is_prepared && job.effort == Effort::kQuickFirst) {
      post(job.number, std::move(job.format), Effort::kFull);
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      done_.push_back({job.number, is_prepared});
    }
    waker_.wake();
  }
}

}  // namespace forerun
