// The portable kernel: four lanes, which compilers map to vectors of any processor.
#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {
namespace {

struct Vectors {
  typedef float F __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  static constexpr int32_t kVectors = 2;
  static F minus_product(F a, F x, F y) { return a - x * y; }
};

}  // namespace

void nearest_scalar(const NearestCall& call) { nearest<Vectors>(call); }

}  // namespace forerun
