// Threads switch by _longjmp(), which a fortified C library would reject.
#undef _FORTIFY_SOURCE

#include "kernels/cuda/emulation/emulation.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace forerun::cuda::emulation {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kMaxIdleRounds = 3000;

Launch* current_launch = nullptr;
Thread* current_thread = nullptr;
jmp_buf scheduler;
const std::function<void()>* kernel = nullptr;
uint32_t seed = 1;

// Stacks are kept from launch to launch; their pages are committed when they are first used.
std::byte* stack_of(size_t index) {
  static std::vector<std::byte*> stacks;
  while (stacks.size() <= index) {
    void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) fail("no memory for a thread's stack");
    stacks.push_back(static_cast<std::byte*>(stack));
  }
  return stacks[index];
}

// Switches to another context; returns when a thread switches back. (swapcontext() would make two
// system calls.)
void switch_to(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

// Runs twice: first to create the thread's context, then, from switch_to(), to run the thread.
void begin_thread() {
  Thread& thread = *current_thread;
  if (_setjmp(thread.context) == 0) _longjmp(scheduler, 1);
  (*kernel)();
  current_thread->has_ended = true;
  has_moved();
  yield();
}

void make_context(Thread& thread, std::byte* stack) {
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = stack;
  first.uc_stack.ss_size = kStackBytes;
  first.uc_link = nullptr;
  makecontext(&first, begin_thread, 0);
  current_thread = &thread;
  if (_setjmp(scheduler) == 0) setcontext(&first);
  current_thread = nullptr;
}

uint3 place_of(uint32_t index, dim3 size) {
  return {index % size.x, index / size.x % size.y, index / (size.x * size.y)};
}

void make_blocks(Launch& launch, uint32_t first, uint32_t count, size_t shared_bytes) {
  const uint32_t threads = launch.block.x * launch.block.y * launch.block.z;
  if (threads % 32 != 0) fail("a block of parts of warps");
  launch.threads.resize(size_t{count} * threads);
  for (uint32_t number = 0; number < count; ++number) {
    auto block = std::make_unique<Block>();
    block->index = place_of(first + number, launch.grid);
    block->number = number;
    block->rank = (first + number) % launch.cluster_blocks;
    block->threads = threads;
    if (block->rank == 0) launch.clusters.push_back(std::make_unique<Meeting>());
    block->cluster = launch.clusters.back().get();
    block->shared.assign(shared_bytes, std::byte{0xff});
    block->warps.resize(threads / 32);
    block->warpgroups.resize((threads + 127) / 128);
    for (uint32_t i = 0; i < threads; ++i) {
      const size_t index = size_t{number} * threads + i;
      Thread& thread = launch.threads[index];
      thread.index = place_of(i, launch.block);
      thread.block = block.get();
      make_context(thread, stack_of(index));
    }
    launch.blocks.push_back(std::move(block));
  }
}

// Runs each thread of a warp until it waits; returns how many threads have ended.
size_t run_warp(Launch& launch, size_t warp) {
  size_t ended = 0;
  for (size_t i = warp * 32; i < (warp + 1) * 32; ++i) {
    Thread& thread = launch.threads[i];
    if (thread.has_ended) continue;
    if (thread.waits_for != nullptr && *thread.waits_for == thread.seen) continue;
    current_thread = &thread;
    switch_to(scheduler, thread.context);
    current_thread = nullptr;
    ended += thread.has_ended ? 1 : 0;
  }
  return ended;
}

void do_some_background(Launch& launch) {
  for (uint32_t some = launch.random() % 8; some > 0 && !launch.background.empty(); --some) {
    std::swap(launch.background[launch.random() % launch.background.size()],
              launch.background.back());
    const std::function<void()> work = std::move(launch.background.back());
    launch.background.pop_back();
    work();
  }
}

void run_to_end(Launch& launch) {
  std::vector<size_t> order(launch.threads.size() / 32);
  std::iota(order.begin(), order.end(), size_t{0});
  // Some warps are slow, and in some launches all background work is slow, so that a missing wait
  // lets other warps run ahead.
  const uint32_t background_turns = 2u << launch.random() % 3 * 3;
  std::vector<bool> is_slow(order.size());
  for (size_t warp = 0; warp < order.size(); ++warp) is_slow[warp] = launch.random() % 4 == 0;
  size_t left = launch.threads.size();
  int idle_rounds = 0;
  while (left > 0) {
    launch.has_moved = false;
    std::shuffle(order.begin(), order.end(), launch.random);
    for (const size_t warp : order) {
      if (launch.random() % 16 < (is_slow[warp] ? 14u : 4u)) continue;
      left -= run_warp(launch, warp);
      if (launch.random() % background_turns == 0) do_some_background(launch);
    }
    if (!launch.has_moved) do_some_background(launch);
    const bool is_idle = !launch.has_moved && launch.background.empty();
    idle_rounds = is_idle ? idle_rounds + 1 : 0;
    if (idle_rounds > kMaxIdleRounds) fail("all threads wait");
  }
  if (!launch.background.empty()) fail("a block has ended before data that was sent to it arrived");
  for (const auto& block : launch.blocks) {
    for (const auto& [address, barrier] : block->barriers) {
      if (barrier.bytes != 0) fail("a barrier expects bytes that did not come");
    }
  }
}

}  // namespace

Launch& launch() { return *current_launch; }
Thread& thread() { return *current_thread; }

void set_seed(uint32_t value) { seed = value; }

void fail(const char* what) {
  if (current_thread == nullptr) {
    std::fprintf(stderr, "emulation of a kernel: %s\n", what);
  } else {
    std::fprintf(stderr, "emulation of a kernel: block %u, thread %u: %s\n",
                 current_thread->block->number, current_thread->index.x, what);
  }
  std::abort();
}

void run(dim3 grid, dim3 block, uint32_t cluster_blocks, size_t shared_bytes,
         const std::function<void()>& body) {
  kernel = &body;
  const uint32_t total = grid.x * grid.y * grid.z;
  const uint32_t together = cluster_blocks > 0 ? cluster_blocks : total;
  for (uint32_t first = 0; first < total; first += together) {
    Launch launch;
    launch.grid = grid;
    launch.block = block;
    launch.cluster_blocks = std::max(cluster_blocks, 1u);
    launch.random.seed(seed + first);
    current_launch = &launch;
    make_blocks(launch, first, together, shared_bytes);
    run_to_end(launch);
    current_launch = nullptr;
  }
}

void yield() { switch_to(current_thread->context, scheduler); }

void wait_while(const uint64_t& value, uint64_t is) {
  thread().waits_for = &value;
  thread().seen = is;
  while (value == is) yield();
  thread().waits_for = nullptr;
}

void meet(Meeting& meeting, uint32_t threads) {
  if (++meeting.arrived < threads) return wait_while(meeting.generation, meeting.generation);
  meeting.arrived = 0;
  ++meeting.generation;
  has_moved();
}

std::byte* shared_memory(uint32_t address, size_t bytes) {
  const uint32_t number = address >> kWindowBits;
  const uint32_t offset = address & ((1u << kWindowBits) - 1);
  if (number >= launch().blocks.size()) fail("an address of no block");
  std::vector<std::byte>& shared = launch().blocks[number]->shared;
  if (offset < kFirstOffset || offset - kFirstOffset + bytes > shared.size()) {
    fail("an address outside of the block's shared memory");
  }
  return shared.data() + (offset - kFirstOffset);
}

MBarrier& barrier_at(uint32_t address) {
  shared_memory(address, 8);
  auto& barriers = launch().blocks[address >> kWindowBits]->barriers;
  const auto found = barriers.find(address);
  if (found == barriers.end()) fail("a barrier that has not been initialized");
  return found->second;
}

namespace {

void end_phase_where_complete(MBarrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.arrivals;
  has_moved();
}

}  // namespace

void arrive(uint32_t address) {
  MBarrier& barrier = barrier_at(address);
  if (barrier.pending == 0) fail("more arrivals than a barrier waits for");
  --barrier.pending;
  end_phase_where_complete(barrier);
}

void complete_bytes(uint32_t address, uint32_t bytes) {
  MBarrier& barrier = barrier_at(address);
  barrier.bytes -= bytes;
  end_phase_where_complete(barrier);
}

}  // namespace forerun::cuda::emulation
