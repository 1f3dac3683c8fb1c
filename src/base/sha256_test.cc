#include "base/sha256.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace forerun {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The examples of FIPS 180-2, and of no byte.
TEST(Sha256, GivesTheStandardsExamples) {
  const std::pair<std::string, std::string> examples[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, digest] : examples) {
    EXPECT_EQ(hex(sha256(bytes_of(text))), digest);
    EXPECT_EQ(hex(portable_sha256(bytes_of(text))), digest);
  }
}

TEST(Sha256, IsTheSameWithAndWithoutInstructionsAtAnyLength) {
  std::mt19937_64 random(5);
  std::vector<std::byte> bytes(400);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t length = 0; length < 300; ++length) {
    const auto part = std::span(bytes).subspan(length % 7, length);
    EXPECT_EQ(sha256(part), portable_sha256(part)) << length;
  }
}

}  // namespace
}  // namespace forerun
