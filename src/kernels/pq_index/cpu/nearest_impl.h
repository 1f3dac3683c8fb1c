// The search for the nearest centroid, written once over a vector type (kernels/simd/vector.h).
// Only the files of the instruction sets include it; each has its own copy.
//
// Each lane holds a key, so lanes are never compared with each other. The search compares half of
// the squared distance minus half of the key's squared length; the latter is the same for all
// centroids.
#pragma once

#include "kernels/pq_index/cpu/nearest.h"
#include "kernels/pq_index/pq_index.h"
#include "kernels/simd/vector.h"

namespace forerun {
namespace {

template <simd::WeightVector V>
void nearest(const NearestCall& call) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int32_t kLanes = V::kLanes;
  constexpr int32_t kVectors = kLanes == 16 ? 4 : 2;  // vectors in registers at once
  constexpr int32_t kCentroids = 2;  // centroids per load of a key, which may cross cache lines
  static_assert(kNearestKeys % (kLanes * kVectors) == 0 && kPqCentroids % kCentroids == 0);
  for (int32_t first = 0; first < call.count; first += kLanes * kVectors) {
    F least[kVectors];
    I found[kVectors];
    for (int32_t i = 0; i < kVectors; ++i) {
      least[i] = V::set1(__builtin_huge_valf());
      found[i] = V::zero_int();
    }
    for (int32_t first_c = 0; first_c < kPqCentroids; first_c += kCentroids) {
      F distance[kCentroids][kVectors];
      for (int32_t c = 0; c < kCentroids; ++c) {
        for (int32_t i = 0; i < kVectors; ++i) {
          distance[c][i] = V::set1(call.half_norms[first_c + c]);
        }
      }
      for (int32_t dim = 0; dim < call.dims; ++dim) {
        const float* const centroids = call.centroids + dim * kPqCentroids + first_c;
        const float* const keys = call.keys + dim * call.key_stride + first;
        for (int32_t i = 0; i < kVectors; ++i) {
          const F key = V::load(keys + i * kLanes);
          for (int32_t c = 0; c < kCentroids; ++c) {
            distance[c][i] = V::fnma(V::set1(centroids[c]), key, distance[c][i]);
          }
        }
      }
      for (int32_t c = 0; c < kCentroids; ++c) {
        for (int32_t i = 0; i < kVectors; ++i) {
          const typename V::Mask is_nearer = V::less(distance[c][i], least[i]);
          least[i] = V::select(is_nearer, distance[c][i], least[i]);
          found[i] = V::select_int(is_nearer, V::set1_int(first_c + c), found[i]);
        }
      }
    }
    for (int32_t i = 0; i < kVectors; ++i) {
      V::store_low_bytes(reinterpret_cast<int8_t*>(call.codes + first + i * kLanes), found[i]);
    }
  }
}

}  // namespace
}  // namespace forerun
