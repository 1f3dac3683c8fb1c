// Wrappers of the PTX instructions in the kernels, each spelled once. Clusters, bulk copies and
// dependent launch need sm_90; on sm_80 their wrappers are left out, and kernels that need them are
// not compiled.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

// Compute c += a * b, 16 x 16 times 16 x 8, bf16 or f16 in, f32 sums.
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Returns the address of the launch's dynamic shared memory, aligned for operands of wgmma.
__device__ __forceinline__ uint32_t dynamic_shared_address() {
  extern __shared__ __align__(1024) std::byte dynamic_shared_memory[];
  return shared_address(dynamic_shared_memory);
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3},[%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0],{%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u32 [%0],%1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ uint32_t load_shared_4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0,[%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ float2 load_shared_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0,%1},[%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_shared_pair(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0],{%1,%2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store_shared_byte(uint32_t address, uint32_t v) {
  asm volatile("st.shared.u8 [%0],%1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ int load_shared_byte(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u8 %0,[%1];" : "=r"(v) : "r"(address) : "memory");
  return static_cast<int>(v);
}

// Load 2 bytes, or two words.
__device__ __forceinline__ uint32_t load_shared_2(uint32_t address) {
  uint32_t v;
  asm volatile("{.reg .u16 z; ld.shared.u16 z,[%1]; cvt.u32.u16 %0,z;}"
               : "=r"(v)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ uint2 load_shared_8(uint32_t address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1},[%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
// Loads a word that no thread writes before the next barrier, so that the compiler may move stores
// past the load.
__device__ __forceinline__ uint32_t load_shared_constant_4(uint32_t address) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0,[%1];" : "=r"(v) : "r"(address));
  return v;
}

// Returns an estimate of 1 / x, accurate to a few units in the last place.
__device__ __forceinline__ float estimate_inverse(float x) {
  float estimate;
  asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(estimate) : "f"(x));
  return estimate;
}

// Returns the same value, whose origin the compiler cannot see any more.
__device__ __forceinline__ uint32_t opaque(uint32_t v) {
  asm volatile("" : "+r"(v));
  return v;
}

template <class T>
__device__ __forceinline__ T* opaque(T* v) {
  asm volatile("" : "+l"(v));
  return v;
}

// Returns dynamic_shared_address(), kept in a register: otherwise the compiler reads it again
// (SR_CgaCtaId) wherever it computes an address, in every iteration of a loop. Call it in whole
// warps: the shuffle tells the compiler that the address is the same in all lanes, as operands of
// wgmma must be.
__device__ __forceinline__ uint32_t kept_shared_address() {
  return __shfl_sync(~0u, opaque(dynamic_shared_address()), 0);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Stores matrices a[0] to a[3], the inverse of ldmatrix_x4().
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t (&a)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0],{%1,%2,%3,%4};" ::"r"(row), "r"(a[0]),
               "r"(a[1]), "r"(a[2]), "r"(a[3])
               : "memory");
}

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialized barriers visible to the copy engine and the cluster.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive_expect_tx(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done,[%0],%1;\n"
      " @done bra over;\n bra again;\n over:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Returns true in one lane of a full warp, always in the same lane.
__device__ __forceinline__ bool elected() {
  uint32_t chosen;
  asm volatile("{\n .reg .pred one;\n elect.sync _|one, 0xffffffff;\n selp.u32 %0,1,0,one;\n}"
               : "=r"(chosen));
  return chosen != 0;
}
// Copies from global to shared memory and completes on `barrier`. Addresses and size are multiples
// of 16 bytes.
__device__ __forceinline__ void bulk_copy(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(
          target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
// Copies weights, which are read once, and marks them to be evicted first: the L2 should keep
// activations and the KV cache.
__device__ __forceinline__ void bulk_copy_streaming(uint32_t target, const void* source,
                                                    uint32_t bytes, uint32_t barrier,
                                                    uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0],[%1],%2,[%3],%4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0,1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint32_t cluster_index() {  // index of the cluster, along x
  uint32_t index;
  asm volatile("mov.u32 %0,%%clusterid.x;" : "=r"(index));
  return index;
}
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0,%%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// cluster_arrive_relaxed() announces that this thread has arrived; cluster_wait() waits until every
// thread of the cluster has. They order only barrier_init_fence(); data travels with store_peer_16.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ uint32_t peer_address(uint32_t address, uint32_t rank) {
  uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}
// Counts an arrival at a barrier of a block of the cluster; the address comes from peer_address().
// It orders nothing: the thread must already have used what it read. (The cluster barrier would
// order by a fence of the whole GPU, which takes 3 us and empties the L1.)
__device__ __forceinline__ void arrive_at_peer(uint32_t barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _,[%0];" ::"r"(barrier)
               : "memory");
}
// Stores into the shared memory of a block of the cluster and completes 16 bytes on that block's
// barrier; both addresses come from peer_address(). Returns at once; no fence is needed on either
// side.
__device__ __forceinline__ void store_peer_16(uint32_t address, uint32_t barrier, float4 v) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0],{%1,%2,%3,%4},[%5];" ::"r"(
          address),
      "r"(__float_as_uint(v.x)), "r"(__float_as_uint(v.y)), "r"(__float_as_uint(v.z)),
      "r"(__float_as_uint(v.w)), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void store_peer_8(uint32_t address, uint32_t barrier, float x, float y) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0],{%1,%2},[%3];" ::"r"(
          address),
      "r"(__float_as_uint(x)), "r"(__float_as_uint(y)), "r"(barrier)
      : "memory");
}
// Makes this thread's stores to shared memory visible to wgmma and to bulk copies.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Orders stores to global memory that this thread has made or observed before later bulk copies of
// this thread or of threads that synchronize with it.
__device__ __forceinline__ void fence_global_async_proxy() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// Allows the stream's next kernel to start now (it still waits for this one's end before it reads).
__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Returns once the stream's previous kernel is complete and its writes are visible.
__device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

#endif

// Synchronizes `threads` threads of a block; `id` is 1 to 15 (0 is __syncthreads).
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0,%1;" ::"r"(id), "r"(threads) : "memory");
}

// Transposes a row-major 8 x 8 matrix of 16-bit elements; each lane holds two elements of a row.
__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t v) {
  uint32_t r;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0,%1;" : "=r"(r) : "r"(v));
  return r;
}
// Loads four 8 x 8 matrices. Lane i passes the address of row i % 8 of matrix i / 8 and gets two
// elements of row i / 4 of each matrix.
__device__ __forceinline__ uint4 ldmatrix_x4(uint32_t row) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(row));
  return v;
}
// Loads four 8 x 8 matrices transposed. Lane i passes the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&a)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(row)
               : "memory");
}
// Copies 16 bytes per lane from global to shared memory, or writes zeros if not `valid`.
__device__ __forceinline__ void copy_16_async(uint32_t target, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(target), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;"); }
// Returns once the lane's own copies have landed.
__device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Returns once the lane's own copies have landed, except for the last kCount groups.
template <int kCount>
__device__ __forceinline__ void copies_wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kCount) : "memory");
}

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ uint32_t pack_bf16x2(float low, float high) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&v);
}
// Round two adjacent activations, or one, to `format`.
__device__ __forceinline__ uint32_t pack_activations(ActivationFormat format, float low,
                                                     float high) {
  if (format == ActivationFormat::kBf16) return pack_bf16x2(low, high);
  uint32_t pair;
  asm("cvt.rn.satfinite.f16x2.f32 %0,%1,%2;"
      : "=r"(pair)
      : "f"(high * kF16Scale), "f"(low * kF16Scale));
  return pair;
}
__device__ __forceinline__ uint16_t round_activation(ActivationFormat format, float v) {
  return static_cast<uint16_t>(pack_activations(format, v, 0));
}

// Stores through the L2, by which blocks of one launch exchange data, since the L1 caches of SMs
// are not coherent.
__device__ __forceinline__ void store_through_l2(float* target, float4 v) {
  asm volatile("st.global.cg.v4.f32 [%0],{%1,%2,%3,%4};" ::"l"(target), "f"(v.x), "f"(v.y),
               "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ __forceinline__ void store_pair_through_l2(float* target, float x, float y) {
  asm volatile("st.global.cg.v2.f32 [%0],{%1,%2};" ::"l"(target), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ float load_word_through_l2(const float* source) {
  float v;
  asm volatile("ld.global.cg.f32 %0,[%1];" : "=f"(v) : "l"(source) : "memory");
  return v;
}
__device__ __forceinline__ float4 load_through_l2(const float* source) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3},[%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(source)
               : "memory");
  return v;
}
__device__ __forceinline__ float2 load_pair_through_l2(const float* source) {
  float2 v;
  asm volatile("ld.global.cg.v2.f32 {%0,%1},[%2];" : "=f"(v.x), "=f"(v.y) : "l"(source) : "memory");
  return v;
}
__device__ __forceinline__ void prefetch_into_l2(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}
// Adds arrivals to a counter. They become visible after everything that this block's threads wrote
// before their last barrier.
__device__ __forceinline__ void arrive_release(uint32_t* counter, uint32_t arrivals) {
  asm volatile("red.release.gpu.global.add.u32 [%0],%1;" ::"l"(counter), "r"(arrivals) : "memory");
}
// Waits for `count` arrivals; returns false after about a second, which means an error.
__device__ __forceinline__ bool wait_acquire(const uint32_t* counter, uint32_t count) {
#pragma unroll 1
  for (int polls = 0; polls < 1 << 21; ++polls) {
    uint32_t arrived;
    asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(arrived) : "l"(counter) : "memory");
    if (arrived >= count) return true;
  }
  return false;
}

}  // namespace forerun::cuda
