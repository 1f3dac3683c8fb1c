#include "base/packed_integers.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(PackedIntegers, ComeBack) {
  constexpr int64_t kMax = (int64_t{1} << 58) - 1;
  std::vector<int64_t> values = {0, 1, 31, 32, 33, 1023, 1024, kMax};
  std::string packed;
  for (const int64_t value : values) append_packed(packed, value);
  EXPECT_EQ(unpack_integers(packed, kMax), values);
  EXPECT_EQ(unpack_integers("", 1), std::vector<int64_t>{});
  EXPECT_EQ(unpack_integers("ABf_BgC", 100), (std::vector<int64_t>{0, 1, 31, 63, 64}));
}

TEST(PackedIntegers, OtherTextIsRefused) {
  EXPECT_FALSE(unpack_integers("B!", 9));                 // not a digit
  EXPECT_FALSE(unpack_integers("k", 9));                  // an incomplete number
  EXPECT_FALSE(unpack_integers("K", 9));                  // above the maximum
  EXPECT_FALSE(unpack_integers("ggggggggggggggggB", 9));  // too many digits
}

}  // namespace
}  // namespace forerun
