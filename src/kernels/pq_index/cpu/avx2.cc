// The nearest-centroid kernel for AVX2 + FMA.
#include "kernels/simd/avx2.h"

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {

void nearest_avx2(const NearestCall& call) { nearest<simd::Avx2>(call); }

}  // namespace forerun
