#include "kernels/simd/avx512.h"
#include "kernels/simd/avx512_bf16_emulated.h"
#include "kernels/simd/bf16_cases.h"
#include "kernels/simd/vector_cases.h"

namespace forerun {

const char* wrong_in_avx512_vectors();
const char* wrong_in_avx512_vectors() {
  using simd::Avx512;
  if (const char* wrong = simd::check_arithmetic<Avx512>(true)) return wrong;
  if (const char* wrong = simd::check_masks_and_sums<Avx512>()) return wrong;
  if (const char* wrong = simd::check_weights<Avx512>()) return wrong;
  if (const char* wrong = simd::check_words<Avx512>()) return wrong;
  if (const char* wrong = simd::check_some_lanes()) return wrong;
  if (const char* wrong = simd::check_orders_of_lanes()) return wrong;
  return simd::check_powers_of_2();
}

const char* wrong_in_emulated_bf16_products();
const char* wrong_in_emulated_bf16_products() {
  return simd::check_bf16_products<simd::EmulatedBf16>();
}

}  // namespace forerun
