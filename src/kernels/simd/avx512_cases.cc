#include "kernels/simd/avx512.h"
#include "kernels/simd/vector_cases.h"

namespace forerun {

const char* wrong_in_avx512_vectors();
const char* wrong_in_avx512_vectors() {
  using simd::Avx512;
  if (const char* wrong = simd::check_arithmetic<Avx512>(true)) return wrong;
  if (const char* wrong = simd::check_masks_and_sums<Avx512>()) return wrong;
  if (const char* wrong = simd::check_weights<Avx512>()) return wrong;
  return simd::check_words<Avx512>();
}

}  // namespace forerun
