// The kernel for AVX-512. CMakeLists.txt sets the compiler flags of this file.
#include <immintrin.h>

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {
namespace {

struct Vectors {
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));
  static constexpr int32_t kVectors = 4;
  static F minus_product(F a, F x, F y) { return _mm512_fnmadd_ps(x, y, a); }
};

}  // namespace

void nearest_avx512(const NearestCall& call) { nearest<Vectors>(call); }

}  // namespace forerun
