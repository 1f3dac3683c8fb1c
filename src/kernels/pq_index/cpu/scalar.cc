// The portable nearest-centroid kernel: four lanes, which compilers map to vectors of any CPU.
#include "kernels/simd/scalar.h"

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {

void nearest_scalar(const NearestCall& call) { nearest<simd::Scalar>(call); }

}  // namespace forerun
