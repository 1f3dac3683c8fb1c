// The search for the nearest centroids of keys' sub-vectors. Each instruction set has a file that
// exports one kernel.
#pragma once

#include <cstdint>

namespace forerun {

inline constexpr int32_t kNearestKeys = 64;  // keys that a kernel processes at once

// One sub-vector, of `dims` dimensions, of `count` keys. `count` is a multiple of kNearestKeys.
struct NearestCall {
  const float* centroids = nullptr;   // [dims][kPqCentroids]
  const float* half_norms = nullptr;  // [kPqCentroids]: half of a centroid's squared length
  const float* keys = nullptr;        // [dims][key_stride]
  int64_t key_stride = 0;
  int32_t dims = 0;
  int32_t count = 0;
  uint8_t* codes = nullptr;  // [count]: indices of the nearest centroids
};

// Finds the nearest centroid of each key, the first one among equally near ones. A distance that is
// not finite is never the smallest; if no distance is finite, the code is 0. Products are
// subtracted one dimension after the other, by fused multiply-add except in the scalar kernel,
// which rounds each product first.
using NearestKernel = void (*)(const NearestCall& call);

// Returns the kernel of current_isa().
NearestKernel nearest_kernel();

void nearest_scalar(const NearestCall& call);
// Defined where isa_is_built() (kernels/isa.h).
void nearest_avx2(const NearestCall& call);
void nearest_avx512(const NearestCall& call);

}  // namespace forerun
