// The nearest centroids of keys' sub-vectors: what the per-instruction-set files export.
#pragma once

#include <cstdint>

namespace forerun {

inline constexpr int32_t kNearestKeys = 64;  // that a kernel takes at once

// `count` keys, a multiple of kNearestKeys, and one sub-vector of them, of `dims` dimensions.
struct NearestCall {
  const float* centroids = nullptr;   // [dims][kPqCentroids]
  const float* half_norms = nullptr;  // [kPqCentroids]: half of a centroid's squared length
  const float* keys = nullptr;        // [dims][key_stride]
  int64_t key_stride = 0;
  int32_t dims = 0;
  int32_t count = 0;
  uint8_t* codes = nullptr;  // [count]: which centroid is the nearest
};

// Of centroids that are equally near the first is taken; a distance that is not a finite number is
// never the least, and a key that is near to nothing is centroid 0's. Products are subtracted one
// dimension after the other, fused but for the scalar kernel, which rounds them before.
using NearestKernel = void (*)(const NearestCall& call);

// That of current_isa().
NearestKernel nearest_kernel();

void nearest_scalar(const NearestCall& call);
#if defined(__x86_64__)
void nearest_avx2(const NearestCall& call);
void nearest_avx512(const NearestCall& call);
#endif

}  // namespace forerun
