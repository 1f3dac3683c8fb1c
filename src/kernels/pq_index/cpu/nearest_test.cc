// Tests that the kernels of all instruction sets of this CPU have the same bits as a plain loop.
#include "kernels/pq_index/cpu/nearest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/isa.h"
#include "kernels/pq_index/pq_index.h"

namespace forerun {
namespace {

constexpr int32_t kKeys = 3 * kNearestKeys;
constexpr int32_t kKeyStride = kKeys + 5;

struct Kernel {
  const char* name;
  NearestKernel run;
  bool is_fused;
};

std::vector<Kernel> kernels() {
  std::vector<Kernel> all = {{"scalar", nearest_scalar, false}};
#if defined(__x86_64__)
  if (isa_is_supported(Isa::kAvx2)) all.push_back({"avx2", nearest_avx2, true});
  if (isa_is_supported(Isa::kAvx512)) all.push_back({"avx512", nearest_avx512, true});
#endif
  return all;
}

uint8_t nearest_ref(const NearestCall& call, int32_t key_idx, bool is_fused) {
  float least = std::numeric_limits<float>::infinity();
  int32_t code = 0;
  for (int32_t c = 0; c < kPqCentroids; ++c) {
    float distance = call.half_norms[c];
    for (int32_t dim = 0; dim < call.dims; ++dim) {
      const float x = call.keys[dim * kKeyStride + key_idx];
      const float y = call.centroids[dim * kPqCentroids + c];
      const float product = x * y;
      distance = is_fused ? std::fma(-x, y, distance) : distance - product;
    }
    if (distance < least) {
      least = distance;
      code = c;
    }
  }
  return static_cast<uint8_t>(code);
}

void expect_as_reference(NearestCall call) {
  call.key_stride = kKeyStride;
  for (const Kernel& kernel : kernels()) {
    SCOPED_TRACE(kernel.name);
    for (call.count = kNearestKeys; call.count <= kKeys; call.count += kNearestKeys) {
      constexpr uint8_t kUntouched = 201;
      std::vector<uint8_t> codes(kKeys + 1, kUntouched);
      call.codes = codes.data();
      kernel.run(call);
      for (int32_t key_idx = 0; key_idx < call.count; ++key_idx) {
        ASSERT_EQ(codes[static_cast<size_t>(key_idx)], nearest_ref(call, key_idx, kernel.is_fused))
            << "key " << key_idx;
      }
      ASSERT_EQ(codes[static_cast<size_t>(call.count)], kUntouched);
    }
  }
}

struct Numbers {
  explicit Numbers(int32_t levels) {
    const auto fill = [&](std::vector<float>& values, size_t size, uint32_t seed) {
      values.resize(size);
      for (size_t i = 0; i < size; ++i) {
        const uint32_t hash = (static_cast<uint32_t>(i) + seed) * 2654435761u >> 8;
        values[i] =
            static_cast<float>(hash % static_cast<uint32_t>(levels)) / static_cast<float>(levels) -
            0.5f;
      }
    };
    fill(centroids, 20 * kPqCentroids, 1);
    fill(keys, 20 * kKeyStride, 77777);
    fill(half_norms, kPqCentroids, 999);
  }
  NearestCall call(int32_t dims) const {
    return {.centroids = centroids.data(),
            .half_norms = half_norms.data(),
            .keys = keys.data(),
            .dims = dims};
  }
  std::vector<float> centroids, keys, half_norms;
};

TEST(NearestCentroid, IsThatOfAPlainLoop) {
  const Numbers numbers(1 << 20);
  for (const int32_t dims : {1, 2, 4, 8, 16, 20}) expect_as_reference(numbers.call(dims));
}

TEST(NearestCentroid, OfEqualsIsTheFirst) {
  const Numbers numbers(2);  // few distinct distances among 256 centroids
  for (const int32_t dims : {1, 3, 8}) expect_as_reference(numbers.call(dims));
}

TEST(NearestCentroid, IsNeverOneThatIsNotANumber) {
  Numbers numbers(1 << 20);
  for (const size_t c : {0, 3, 17, 100, 255}) numbers.half_norms[c] = std::nanf("");
  numbers.keys[4] = std::numeric_limits<float>::infinity();
  numbers.keys[kKeyStride + 9] = std::nanf("");
  expect_as_reference(numbers.call(4));
}

}  // namespace
}  // namespace forerun
