#include "kernels/simd/avx512_bf16.h"
#include "kernels/simd/bf16_cases.h"

namespace forerun {

const char* wrong_in_avx512_bf16_products();
const char* wrong_in_avx512_bf16_products() {
  return simd::check_bf16_products<simd::Avx512Bf16>();
}

}  // namespace forerun
