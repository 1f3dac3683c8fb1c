// Compares every operation of every vector type with plain loops (vector_cases.h), bit by bit.
#include "kernels/simd/vector.h"

#include <gtest/gtest.h>

#include "kernels/isa.h"

namespace forerun {

const char* wrong_in_scalar_vectors();
#if defined(__x86_64__)
const char* wrong_in_avx2_vectors();
const char* wrong_in_avx512_vectors();
const char* wrong_in_emulated_bf16_products();
const char* wrong_in_avx512_bf16_products();
#endif

namespace {

TEST(Vector, OperationsOfScalarGiveTheBitsOfPlainLoops) {
  EXPECT_STREQ(wrong_in_scalar_vectors(), nullptr);
}

#if defined(__x86_64__)
TEST(Vector, OperationsOfAvx2GiveTheBitsOfPlainLoops) {
  if (!isa_is_supported(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  EXPECT_STREQ(wrong_in_avx2_vectors(), nullptr);
}

TEST(Vector, OperationsOfAvx512GiveTheBitsOfPlainLoops) {
  if (!isa_is_supported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  EXPECT_STREQ(wrong_in_avx512_vectors(), nullptr);
  EXPECT_STREQ(wrong_in_emulated_bf16_products(), nullptr);
}

TEST(Vector, ProductsOfAvx512Bf16GiveTheBitsOfPlainLoops) {
  if (!isa_is_supported(Isa::kAvx512Bf16)) GTEST_SKIP() << "no AVX512_BF16";
  EXPECT_STREQ(wrong_in_avx512_bf16_products(), nullptr);
}
#endif

}  // namespace
}  // namespace forerun
