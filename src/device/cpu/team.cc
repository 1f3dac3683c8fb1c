#include "device/cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>

namespace forerun {
namespace {

// About 20-50 us of polling: longer than the gap between two kernels of a forward, shorter than
// what a sleeping neighbour would notice.
constexpr int kSpins = 2000;

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old`.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    cpu_relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void pin_to_core([[maybe_unused]] int32_t core) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
#endif
}

}  // namespace

void TeamBarrier::wait() {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    // Sequentially consistent: notify_all() first looks whether anybody sleeps, and on x86 that
    // look may overtake a plain store. A neighbour that went to sleep in between would never wake.
    generation_.store(generation + 1, std::memory_order_seq_cst);
    generation_.notify_all();
    return;
  }
  wait_for_change(generation_, generation);
}

WorkRange Team::share(int64_t count, int64_t grain) const {
  const int64_t units = (count + grain - 1) / grain;
  const int64_t base = units / size_;
  const int64_t extra = units % size_;
  const int64_t first = rank_ * base + std::min<int64_t>(rank_, extra);
  const int64_t last = first + base + (rank_ < extra ? 1 : 0);
  return {std::min(first * grain, count), std::min(last * grain, count)};
}

struct CpuDevice::Impl {
  Impl(int32_t team_size, int32_t the_first_core)
      : size(team_size), first_core(the_first_core), done(team_size) {}

  void worker(int32_t rank, int32_t core) {
    if (core >= 0) pin_to_core(core);
    const Team team(rank, size, &barrier());
    uint32_t seen = 0;
    while (true) {
      wait_for_change(epoch, seen);
      ++seen;
      if (stopping) return;
      (*work)(team);
      done.wait();
    }
  }

  TeamBarrier& barrier() { return inner; }

  const int32_t size;
  const int32_t first_core;  // -1: unpinned
  std::atomic<uint32_t> epoch{0};
  bool stopping = false;                                   // published by `epoch`
  const std::function<void(const Team&)>* work = nullptr;  // published by `epoch`
  TeamBarrier inner{size};
  TeamBarrier done;
  std::vector<std::thread> threads;
};

std::vector<int32_t> available_cores() {
  std::vector<int32_t> cores;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int32_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
#endif
  if (cores.empty()) {
    const int32_t count = std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
    for (int32_t core = 0; core < count; ++core) cores.push_back(core);
  }
  return cores;
}

CpuDevice::CpuDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(std::span<const int32_t> cores,
                                                     int32_t num_threads) {
  const int32_t size = cores.empty() ? num_threads : static_cast<int32_t>(cores.size());
  if (size < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "a CPU device needs at least 1 thread, found " + std::to_string(size));
  }
  const std::vector<int32_t> usable = available_cores();
  for (int32_t core : cores) {
    if (std::find(usable.begin(), usable.end(), core) == usable.end()) {
      return Status(StatusCode::kInvalidArgument,
                    "cpu:" + std::to_string(core) + " is not available; this process may use " +
                        std::to_string(usable.size()) + " cores, " +
                        std::to_string(usable.front()) + " to " + std::to_string(usable.back()));
    }
  }
  auto impl = std::make_unique<Impl>(size, cores.empty() ? -1 : cores.front());
  Impl* shared = impl.get();
  for (int32_t rank = 1; rank < size; ++rank) {
    const int32_t core = cores.empty() ? -1 : cores[static_cast<size_t>(rank)];
    shared->threads.emplace_back([shared, rank, core] { shared->worker(rank, core); });
  }
  return std::unique_ptr<CpuDevice>(new CpuDevice(std::move(impl)));
}

CpuDevice::~CpuDevice() {
  impl_->stopping = true;
  impl_->epoch.fetch_add(1, std::memory_order_seq_cst);
  impl_->epoch.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

int32_t CpuDevice::size() const { return impl_->size; }

void CpuDevice::pin_caller() const {
  if (impl_->first_core >= 0) pin_to_core(impl_->first_core);
}

void CpuDevice::run(const std::function<void(const Team&)>& work) {
  const Team team(0, impl_->size, &impl_->barrier());
  if (impl_->size == 1) {
    work(team);
    return;
  }
  impl_->work = &work;
  impl_->epoch.fetch_add(1, std::memory_order_seq_cst);
  impl_->epoch.notify_all();
  work(team);
  impl_->done.wait();
}

}  // namespace forerun
