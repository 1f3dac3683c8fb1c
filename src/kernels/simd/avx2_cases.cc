#include "kernels/simd/avx2.h"
#include "kernels/simd/twice.h"
#include "kernels/simd/vector_cases.h"

namespace forerun {

const char* wrong_in_avx2_vectors();
const char* wrong_in_avx2_vectors() {
  using simd::Avx2;
  using Sixteen = simd::Twice<Avx2>;
  if (const char* wrong = simd::check_arithmetic<Avx2>(true)) return wrong;
  if (const char* wrong = simd::check_masks_and_sums<Avx2>()) return wrong;
  if (const char* wrong = simd::check_weights<Avx2>()) return wrong;
  if (const char* wrong = simd::check_words<Avx2>()) return wrong;
  if (const char* wrong = simd::check_arithmetic<Sixteen>(true)) return wrong;
  if (const char* wrong = simd::check_masks_and_sums<Sixteen>()) return wrong;
  return simd::check_words<Sixteen>();
}

}  // namespace forerun
