// An emulator of CUDA kernels on the host, so that tests of their logic need no GPU.
//
// A kernel's source is compiled as C++. Instead of kernels/cuda/ptx.h and its neighbours it
// includes the headers under emulation/include, which implement the same instructions in C++. Every
// thread has its own context; an instruction of a whole warp or warpgroup is executed once all its
// threads have reached it. A seed decides the order in which warps run. Work that hardware does in
// the background (bulk copies, stores to other blocks, arrivals there) is done at some later time,
// and its target holds 0xff until then. So a missing barrier shows in the results; a superfluous
// barrier or a deadlock ends the program with a message.
//
// The emulation rounds a sum of 16 products once, in all kernels: tests compare bits between
// emulated kernels, not with a GPU's.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <setjmp.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace forerun::cuda::emulation {

// An address in shared memory consists of the block's number in the launch (high bits) and an
// offset. No object begins at offset 0.
inline constexpr uint32_t kWindowBits = 18;
inline constexpr uint32_t kFirstOffset = 1024;

// A barrier; `generation` counts how often its threads have met.
struct Meeting {
  uint64_t generation = 0;
  uint32_t arrived = 0;
};

// A barrier for an instruction that threads execute together; each thread brings an operand.
struct Together {
  Meeting meeting;
  const void* instruction = nullptr;
  std::array<void*, 128> operands = {};
};

struct MBarrier {
  uint32_t arrivals = 0;  // arrivals expected per phase
  uint32_t pending = 0;
  int64_t bytes = 0;   // bytes that are expected and not yet there
  uint64_t phase = 0;  // parity of the current phase
};

struct Block;
struct Thread {
  uint3 index = {};
  Block* block = nullptr;
  jmp_buf context = {};
  bool has_ended = false;
  const uint64_t* waits_for = nullptr;  // the thread waits until this is no longer `seen`
  uint64_t seen = 0;
  std::vector<std::function<void()>> copies;  // asynchronous copies of this thread

  uint32_t lane() const { return index.x % 32; }
};

struct Block {
  uint3 index = {};
  uint32_t number = 0;  // number among the blocks that run together
  uint32_t rank = 0;    // rank in its cluster
  uint32_t threads = 0;
  Meeting* cluster = nullptr;
  std::vector<std::byte> shared;
  std::vector<Together> warps, warpgroups;
  std::array<Meeting, 16> named;
  std::unordered_map<uint32_t, MBarrier> barriers;
};

struct Launch {
  dim3 grid, block;
  uint32_t cluster_blocks = 1;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Meeting>> clusters;
  std::vector<Thread> threads;
  std::vector<std::function<void()>> background;  // completed in any order
  bool has_moved = false;  // whether anything has progressed since the last round
  std::mt19937 random;
};

Launch& launch();
Thread& thread();

// Runs a kernel to its end; `body` calls it. Clusters of `cluster_blocks` blocks run one after
// another; with 0 there are no clusters and all blocks run together, since some wait for others.
// Ends the program with a message if the kernel does something illegal.
void run(dim3 grid, dim3 block, uint32_t cluster_blocks, size_t shared_bytes,
         const std::function<void()>& body);
// Sets the seed of all later launches.
void set_seed(uint32_t seed);
[[noreturn]] void fail(const char* what);

void yield();
void wait_while(const uint64_t& value, uint64_t is);
void meet(Meeting& meeting, uint32_t threads);
inline void has_moved() { launch().has_moved = true; }
inline void in_background(std::function<void()> work) {
  launch().background.push_back(std::move(work));
  has_moved();
}

std::byte* shared_memory(uint32_t address, size_t bytes);
template <class T>
T load(uint32_t address) {
  if (address % sizeof(T) != 0) fail("a load that is not aligned");
  T value;
  std::memcpy(&value, shared_memory(address, sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store(uint32_t address, const T& value) {
  if (address % sizeof(T) != 0) fail("a store that is not aligned");
  std::memcpy(shared_memory(address, sizeof(T)), &value, sizeof(T));
}
// Poisons the target of a copy in flight: the old contents are gone and the new ones have not
// arrived.
inline void poison_at(uint32_t address, size_t bytes) {
  std::memset(shared_memory(address, bytes), 0xff, bytes);
}

MBarrier& barrier_at(uint32_t address);
void arrive(uint32_t barrier);
void complete_bytes(uint32_t barrier, uint32_t bytes);
inline uint32_t own_address(uint32_t offset) {
  return offset | thread().block->number << kWindowBits;
}

// Runs an instruction that all threads of a warp (kCount 32) or warpgroup (128) execute, each with
// an operand. The last thread to arrive calls `work` with all operands.
template <uint32_t kCount, class Operand, class Work>
void together(const void* instruction, Operand& own, const Work& work) {
  Block& block = *thread().block;
  Together& group = (kCount == 32 ? block.warps : block.warpgroups)[thread().index.x / kCount];
  if (group.meeting.arrived == 0) group.instruction = instruction;
  if (group.instruction != instruction) fail("threads of a warp meet in different instructions");
  group.operands[thread().index.x % kCount] = &own;
  if (group.meeting.arrived + 1 == kCount) {
    std::array<Operand*, kCount> all;
    for (uint32_t i = 0; i < kCount; ++i) all[i] = static_cast<Operand*>(group.operands[i]);
    work(all);
  }
  meet(group.meeting, kCount);
}

// Returns the value of the lane that each lane names.
template <class T>
T shuffle(T value, uint32_t from) {
  struct Operand {
    T in, out;
    uint32_t from;
  } own = {value, value, from % 32};
  static const char instruction = 0;
  together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    for (Operand* operand : all) operand->out = all[operand->from]->in;
  });
  return own.out;
}
// Combines the values of all lanes, one after another.
template <class T, class Combine>
T reduce(T value, const Combine& combine) {
  struct Operand {
    T in, out;
  } own = {value, value};
  static const char instruction = 0;
  together<32>(&instruction, own, [&combine](const std::array<Operand*, 32>& all) {
    T total = all[0]->in;
    for (uint32_t i = 1; i < 32; ++i) total = combine(total, all[i]->in);
    for (Operand* operand : all) operand->out = total;
  });
  return own.out;
}

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}
using Sixteen = std::array<float, 16>;
inline float multiply_add(const Sixteen& a, const Sixteen& b, float sum) {
  std::array<double, 4> parts = {sum, 0, 0, 0};
  for (size_t i = 0; i < 16; ++i) {
    parts[i % 4] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return static_cast<float>(parts[0] + parts[1] + (parts[2] + parts[3]));
}

}  // namespace forerun::cuda::emulation
