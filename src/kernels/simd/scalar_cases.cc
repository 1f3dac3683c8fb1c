#include "kernels/simd/scalar.h"
#include "kernels/simd/twice.h"
#include "kernels/simd/vector_cases.h"

namespace forerun {

const char* wrong_in_scalar_vectors();
const char* wrong_in_scalar_vectors() {
  using simd::Scalar;
  using Eight = simd::Twice<Scalar>;
  if (const char* wrong = simd::check_arithmetic<Scalar>(false)) return wrong;
  if (const char* wrong = simd::check_masks_and_sums<Scalar>()) return wrong;
  if (const char* wrong = simd::check_weights<Scalar>()) return wrong;
  if (const char* wrong = simd::check_arithmetic<Eight>(false)) return wrong;
  return simd::check_masks_and_sums<Eight>();
}

}  // namespace forerun
