// The search for the nearest centroid, written once over vector types of the compiler's extension.
// Only the per-instruction-set files include it. Each has its own vector types in an anonymous
// namespace, so that files compiled for different processors share no instantiation. For the same
// reason nothing of the standard library is called here.
//
// Each lane holds a key, so lanes are never compared with each other. The search compares half of
// the squared distance minus half of the key's squared length; the latter is the same for all
// centroids.
#pragma once

#include "kernels/pq_index/cpu/nearest.h"
#include "kernels/pq_index/pq_index.h"

namespace forerun {
namespace {

// Broadcasts x. Subtracting 0 lets the compiler drop the operation; x + 0 would have to be
// computed, since -0 + 0 is not -0.
template <class F>
F all(float x) {
  return x - F{};
}

// S provides vector types F and I with equally many floats and integers, the number kVectors of
// vectors in registers at once, and minus_product(a, x, y) = a - x * y.
template <class S>
void nearest(const NearestCall& call) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr int32_t kLanes = sizeof(F) / sizeof(float);
  constexpr int32_t kVectors = S::kVectors;
  constexpr int32_t kCentroids = 2;  // per load of a key, which may cross cache lines
  static_assert(kNearestKeys % (kLanes * kVectors) == 0 && kPqCentroids % kCentroids == 0);
  for (int32_t first = 0; first < call.count; first += kLanes * kVectors) {
    F least[kVectors];
    I found[kVectors];
    for (int32_t i = 0; i < kVectors; ++i) {
      least[i] = all<F>(__builtin_huge_valf());
      found[i] = I{};
    }
    for (int32_t first_c = 0; first_c < kPqCentroids; first_c += kCentroids) {
      F distance[kCentroids][kVectors];
      for (int32_t c = 0; c < kCentroids; ++c) {
        for (int32_t i = 0; i < kVectors; ++i) {
          distance[c][i] = all<F>(call.half_norms[first_c + c]);
        }
      }
      for (int32_t dim = 0; dim < call.dims; ++dim) {
        const float* const centroids = call.centroids + dim * kPqCentroids + first_c;
        const float* const keys = call.keys + dim * call.key_stride + first;
        for (int32_t i = 0; i < kVectors; ++i) {
          F key;
          __builtin_memcpy(&key, keys + i * kLanes, sizeof key);
          for (int32_t c = 0; c < kCentroids; ++c) {
            distance[c][i] = S::minus_product(distance[c][i], all<F>(centroids[c]), key);
          }
        }
      }
      for (int32_t c = 0; c < kCentroids; ++c) {
        for (int32_t i = 0; i < kVectors; ++i) {
          const I is_nearer = distance[c][i] < least[i];
          least[i] = is_nearer ? distance[c][i] : least[i];
          found[i] = is_nearer ? I{} + (first_c + c) : found[i];
        }
      }
    }
    for (int32_t i = 0; i < kVectors; ++i) {
      for (int32_t lane = 0; lane < kLanes; ++lane) {
        call.codes[first + i * kLanes + lane] = static_cast<uint8_t>(found[i][lane]);
      }
    }
  }
}

}  // namespace
}  // namespace forerun
