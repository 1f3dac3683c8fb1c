#include "device/cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "device/cpu/short_slices.h"

namespace forerun {
namespace {

void pin_to_core([[maybe_unused]] int32_t core) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
#endif
}

}  // namespace

WorkRange Team::share(int64_t count, int64_t grain) const {
  const int64_t units = (count + grain - 1) / grain;
  const int64_t base = units / size_;
  const int64_t extra = units % size_;
  const int64_t first = rank_ * base + std::min<int64_t>(rank_, extra);
  const int64_t last = first + base + (rank_ < extra ? 1 : 0);
  return {std::min(first * grain, count), std::min(last * grain, count)};
}

struct CpuDevice::Impl {
  Impl(int32_t team_size, int32_t the_first_core, int the_spins)
      : size(team_size),
        first_core(the_first_core),
        spins(the_spins),
        inner(team_size, the_spins),
        done(team_size, the_spins) {}

  void worker(int32_t rank, int32_t core) {
    if (core >= 0) pin_to_core(core);
    ask_for_short_slices();
    const Team team(rank, size, &inner);
    uint32_t seen = 0;
    while (true) {
      wait_for_change(epoch, seen, spins);
      ++seen;
      if (stopping) return;
      (*work)(team);
      done.wait();
    }
  }

  const int32_t size;
  const int32_t first_core;  // -1 if unpinned
  const int spins;
  std::atomic<uint32_t> epoch{0};
  bool stopping = false;                                   // published by `epoch`
  const std::function<void(const Team&)>* work = nullptr;  // published by `epoch`
  Barrier inner;
  Barrier done;
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
                  "CPU device: found " + std::to_string(size) + " threads; accepted: at least 1");
  }
  const std::vector<int32_t> usable = available_cores();
  for (int32_t core : cores) {
    if (std::find(usable.begin(), usable.end(), core) == usable.end()) {
      return Status(StatusCode::kInvalidArgument,
                    "devices: found cpu:" + std::to_string(core) + "; accepted: one of the " +
                        std::to_string(usable.size()) +
                        " processors of this process, from cpu:" + std::to_string(usable.front()) +
                        " to cpu:" + std::to_string(usable.back()));
    }
  }
  std::vector<int32_t> distinct(cores.begin(), cores.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const size_t processors = cores.empty() ? usable.size() : distinct.size();
  const bool crowded = static_cast<size_t>(size) > processors;
  auto impl = std::make_unique<Impl>(size, cores.empty() ? -1 : cores.front(),
                                     crowded ? kSharedCoreSpins : kPatientSpins);
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

int CpuDevice::spins() const { return impl_->spins; }

void CpuDevice::pin_caller() const {
  if (impl_->first_core >= 0) pin_to_core(impl_->first_core);
}

void CpuDevice::run(const std::function<void(const Team&)>& work) {
  const Team team(0, impl_->size, &impl_->inner);
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
