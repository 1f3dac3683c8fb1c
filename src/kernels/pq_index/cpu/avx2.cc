// The kernel for AVX2 + FMA. CMakeLists.txt sets the compiler flags of this file.
#include <immintrin.h>

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {
namespace {

struct Vectors {
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
  static constexpr int32_t kVectors = 2;
  static F minus_product(F a, F x, F y) { return _mm256_fnmadd_ps(x, y, a); }
};

}  // namespace

void nearest_avx2(const NearestCall& call) { nearest<Vectors>(call); }

}  // namespace forerun
