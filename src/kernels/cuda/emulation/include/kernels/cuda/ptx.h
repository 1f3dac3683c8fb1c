// Emulates kernels/cuda/ptx.h and CUDA's built-in device functions and variables on the host.
// Emulated kernels include it in place of that header (kernels/cuda/emulation/emulation.h).
#pragma once

#include "kernels/cuda/activation_format.h"
#include "kernels/cuda/emulation/emulation.h"

#define threadIdx (::forerun::cuda::emulation::thread().index)
#define blockIdx (::forerun::cuda::emulation::thread().block->index)
#define gridDim (::forerun::cuda::emulation::launch().grid)
#define blockDim (::forerun::cuda::emulation::launch().block)
#undef __maxnreg__
#define __maxnreg__(registers)
#undef __launch_bounds__
#define __launch_bounds__(...)
// For kernels that launch() runs block by block.
#undef __shared__
#define __shared__ static

inline void __syncthreads() {
  namespace emulation = forerun::cuda::emulation;
  emulation::Block& block = *emulation::thread().block;
  emulation::meet(block.named[0], block.threads);
}
inline void __syncwarp() { forerun::cuda::emulation::shuffle(0, 0); }
template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  return forerun::cuda::emulation::shuffle(value, static_cast<uint32_t>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
  namespace emulation = forerun::cuda::emulation;
  return emulation::shuffle(value, emulation::thread().lane() ^ static_cast<uint32_t>(lanes));
}
template <class T>
T __shfl_up_sync(unsigned /*mask*/, T value, unsigned by) {
  namespace emulation = forerun::cuda::emulation;
  const uint32_t lane = emulation::thread().lane();
  return emulation::shuffle(value, lane < by ? lane : lane - by);
}
inline bool __any_sync(unsigned /*mask*/, bool value) {
  return forerun::cuda::emulation::reduce(value, [](bool a, bool b) { return a || b; });
}
inline bool __all_sync(unsigned /*mask*/, bool value) {
  return forerun::cuda::emulation::reduce(value, [](bool a, bool b) { return a && b; });
}
inline int __reduce_max_sync(unsigned /*mask*/, int value) {
  return forerun::cuda::emulation::reduce(value, [](int a, int b) { return a > b ? a : b; });
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __expf(float x) { return std::exp(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
// Selects four of the 8 bytes of `low` and `high` by the four nibbles of `selector`.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t from = selector >> (4 * i) & 7;
    chosen |= static_cast<uint32_t>(bytes >> (8 * from) & 0xff) << (8 * i);
  }
  return chosen;
}
inline uint32_t atomicAdd(uint32_t* address, uint32_t value) {
  const uint32_t before = *address;
  *address += value;
  forerun::cuda::emulation::has_moved();
  return before;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}

namespace forerun::cuda {
namespace emulation {

template <bool kIsF16>
float from_half(uint32_t pair, uint32_t index) {
  const auto bits = static_cast<uint16_t>(pair >> (16 * index));
  if constexpr (!kIsF16) return from_bf16(bits);
  __half value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(value));
  return __half2float(value);
}

// Emulates mma. Let g = lane / 4 and t = lane % 4. A lane holds rows g and g + 8 of the first
// operand and column g of the second, of each the elements 2t, 2t + 1, 2t + 8 and 2t + 9. Of the
// sums it holds rows g and g + 8, columns 2t and 2t + 1.
template <bool kIsF16>
void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  struct Operand {
    float* c;
    const uint32_t* a;
    uint32_t b[2];
  } own = {c, a, {b0, b1}};
  static const char instruction = 0;
  together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    Sixteen rows[16], columns[8];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      for (uint32_t odd = 0; odd < 2; ++odd) {
        for (uint32_t i = 0; i < 4; ++i) {
          rows[g + i % 2 * 8][2 * t + odd + i / 2 * 8] = from_half<kIsF16>(all[lane]->a[i], odd);
        }
        for (uint32_t i = 0; i < 2; ++i) {
          columns[g][2 * t + odd + i * 8] = from_half<kIsF16>(all[lane]->b[i], odd);
        }
      }
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        float& sum = all[lane]->c[i];
        sum = multiply_add(rows[lane / 4 + i / 2 * 8], columns[lane % 4 * 2 + i % 2], sum);
      }
    }
  });
}

inline void check_own(uint32_t barrier) {
  if (barrier >> kWindowBits != thread().block->number) fail("a barrier of another block");
}

}  // namespace emulation

inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::mma<false>(c, a, b0, b1);
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::mma<true>(c, a, b0, b1);
}

inline uint32_t dynamic_shared_address() { return emulation::own_address(emulation::kFirstOffset); }
inline uint32_t kept_shared_address() { return dynamic_shared_address(); }
inline uint4 load_shared_16(uint32_t address) { return emulation::load<uint4>(address); }
inline void store_shared_16(uint32_t address, uint4 v) { emulation::store(address, v); }
inline void store_shared_4(uint32_t address, uint32_t v) { emulation::store(address, v); }
inline uint32_t load_shared_4(uint32_t address) { return emulation::load<uint32_t>(address); }
inline uint32_t load_shared_constant_4(uint32_t address) { return load_shared_4(address); }
inline uint32_t load_shared_2(uint32_t address) { return emulation::load<uint16_t>(address); }
inline uint2 load_shared_8(uint32_t address) { return emulation::load<uint2>(address); }
inline float estimate_inverse(float x) { return 1.0f / x; }
inline float2 load_shared_pair(uint32_t address) { return emulation::load<float2>(address); }
inline void store_shared_pair(uint32_t address, float x, float y) {
  emulation::store(address, float2{x, y});
}
inline void store_shared_byte(uint32_t address, uint32_t v) {
  emulation::store(address, static_cast<uint8_t>(v));
}
inline int load_shared_byte(uint32_t address) { return emulation::load<uint8_t>(address); }

template <class T>
T opaque(T v) {
  return v;
}

inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  emulation::check_own(barrier);
  emulation::thread().block->barriers[barrier] = {.arrivals = arrivals, .pending = arrivals};
}
inline void barrier_init_fence() {}
inline void barrier_arrive(uint32_t barrier) {
  emulation::check_own(barrier);
  emulation::arrive(barrier);
}
inline void barrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  emulation::check_own(barrier);
  emulation::barrier_at(barrier).bytes += bytes;
  emulation::arrive(barrier);
}
inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  emulation::check_own(barrier);
  emulation::wait_while(emulation::barrier_at(barrier).phase, parity);
}
inline bool elected() { return emulation::thread().lane() == 0; }
inline void bulk_copy(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier) {
  if (target % 16 != 0 || reinterpret_cast<uintptr_t>(source) % 16 != 0 || bytes % 16 != 0) {
    emulation::fail("a bulk copy that is not aligned");
  }
  emulation::poison_at(target, bytes);
  emulation::in_background([=] {
    std::memcpy(emulation::shared_memory(target, bytes), source, bytes);
    emulation::complete_bytes(barrier, bytes);
  });
}
inline uint64_t evict_first_policy() { return 0; }
inline void bulk_copy_streaming(uint32_t target, const void* source, uint32_t bytes,
                                uint32_t barrier, uint64_t /*policy*/) {
  bulk_copy(target, source, bytes, barrier);
}
inline uint32_t cluster_rank() { return emulation::thread().block->rank; }
inline uint32_t cluster_index() {
  return emulation::thread().block->index.x / emulation::launch().cluster_blocks;
}
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() {
  const emulation::Block& block = *emulation::thread().block;
  emulation::meet(*block.cluster, block.threads * emulation::launch().cluster_blocks);
}
inline uint32_t peer_address(uint32_t address, uint32_t rank) {
  emulation::check_own(address);
  return address + ((rank - cluster_rank()) << emulation::kWindowBits);
}
inline void arrive_at_peer(uint32_t barrier) {
  emulation::in_background([=] { emulation::arrive(barrier); });
}
inline void store_peer_16(uint32_t address, uint32_t barrier, float4 v) {
  emulation::poison_at(address, sizeof(v));
  emulation::in_background([=] {
    emulation::store(address, v);
    emulation::complete_bytes(barrier, sizeof(v));
  });
}
inline void store_peer_8(uint32_t address, uint32_t barrier, float x, float y) {
  emulation::poison_at(address, sizeof(float2));
  emulation::in_background([=] {
    emulation::store(address, float2{x, y});
    emulation::complete_bytes(barrier, sizeof(float2));
  });
}
inline void fence_async_proxy() {}
inline void fence_global_async_proxy() {}
inline void launch_dependents() {}
inline void wait_for_previous_kernel() {}
inline void named_barrier(int id, int threads) {
  emulation::meet(emulation::thread().block->named[static_cast<size_t>(id)],
                  static_cast<uint32_t>(threads));
}

inline uint32_t movmatrix_trans(uint32_t v) {
  struct Operand {
    uint32_t in, out;
  } own = {v, 0};
  static const char instruction = 0;
  emulation::together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t row = lane / 4;
      for (uint32_t odd = 0; odd < 2; ++odd) {
        const uint32_t column = lane % 4 * 2 + odd;
        const uint32_t element = all[column * 4 + row / 2]->in >> (16 * (row % 2)) & 0xffff;
        all[lane]->out |= element << (16 * odd);
      }
    }
  });
  return own.out;
}
inline uint4 ldmatrix_x4(uint32_t row) {
  struct Operand {
    uint32_t row, out[4];
  } own = {row, {}};
  static const char instruction = 0;
  emulation::together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        const uint32_t from = all[matrix * 8 + lane / 4]->row;
        if (from % 16 != 0) emulation::fail("a matrix's row that is not aligned");
        all[lane]->out[matrix] = emulation::load<uint32_t>(from + lane % 4 * 4);
      }
    }
  });
  return {own.out[0], own.out[1], own.out[2], own.out[3]};
}
inline void ldmatrix_x4_trans(uint32_t (&a)[4], uint32_t row) {
  struct Operand {
    uint32_t row;
    uint32_t* out;
  } own = {row, a};
  static const char instruction = 0;
  emulation::together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        const uint32_t first = matrix * 8 + lane % 4 * 2;
        const uint32_t low = emulation::load<uint16_t>(all[first]->row + lane / 4 * 2);
        const uint32_t high = emulation::load<uint16_t>(all[first + 1]->row + lane / 4 * 2);
        all[lane]->out[matrix] = low | high << 16;
      }
    }
  });
}
inline void store_matrices(uint32_t row, const uint32_t (&a)[4]) {
  struct Operand {
    uint32_t row;
    const uint32_t* in;
  } own = {row, a};
  static const char instruction = 0;
  emulation::together<32>(&instruction, own, [](const std::array<Operand*, 32>& all) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        emulation::store(all[matrix * 8 + lane / 4]->row + lane % 4 * 4, all[lane]->in[matrix]);
      }
    }
  });
}
inline void copy_16_async(uint32_t target, const void* source, bool valid) {
  if (target % 16 != 0) emulation::fail("a copy that is not aligned");
  emulation::poison_at(target, sizeof(uint4));
  emulation::thread().copies.push_back([=] {
    uint4 v = {};
    if (valid) std::memcpy(&v, source, sizeof(v));
    emulation::store(target, v);
  });
}
inline void copies_commit() {}
inline void copies_wait() {
  for (const auto& copy : emulation::thread().copies) copy();
  emulation::thread().copies.clear();
}
template <int kCount>
void copies_wait_for_all_but() {
  copies_wait();
}

inline float exp2_approx(float x) {
  const float y = std::exp2(x);
  return std::fabs(y) < 1.17549435e-38f ? 0.0f : y;
}
inline uint32_t pack_bf16x2(float low, float high) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return bits;
}
inline uint32_t pack_activations(ActivationFormat format, float low, float high) {
  if (format == ActivationFormat::kBf16) return pack_bf16x2(low, high);
  const auto bits_of = [](float v) {
    constexpr float kMax = 65504;
    const float scaled = v * kF16Scale;
    const __half half = __float2half_rn(scaled > kMax ? kMax : scaled < -kMax ? -kMax : scaled);
    uint16_t bits;
    std::memcpy(&bits, &half, sizeof(bits));
    return uint32_t{bits};
  };
  return bits_of(low) | bits_of(high) << 16;
}
inline uint16_t round_activation(ActivationFormat format, float v) {
  return static_cast<uint16_t>(pack_activations(format, v, 0));
}

inline void store_through_l2(float* target, float4 v) { std::memcpy(target, &v, sizeof(v)); }
inline void store_pair_through_l2(float* target, float x, float y) {
  target[0] = x;
  target[1] = y;
}
inline float load_word_through_l2(const float* source) { return *source; }
inline float4 load_through_l2(const float* source) {
  return {source[0], source[1], source[2], source[3]};
}
inline float2 load_pair_through_l2(const float* source) { return {source[0], source[1]}; }
inline void prefetch_into_l2(const void* /*line*/) {}
inline void arrive_release(uint32_t* counter, uint32_t arrivals) {
  *counter += arrivals;
  emulation::has_moved();
}
// There is no clock, so a wait fails after many iterations.
inline bool wait_acquire(const uint32_t* counter, uint32_t count) {
  for (int turns = 0; turns < 100000; ++turns) {
    if (*static_cast<const volatile uint32_t*>(counter) >= count) return true;
    emulation::has_moved();
    emulation::yield();
  }
  return false;
}

}  // namespace forerun::cuda
