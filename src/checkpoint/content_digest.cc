#include "checkpoint/content_digest.h"

// xxHash is compiled in, so that machines that only run the program need no library for it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <string_view>

namespace forerun {

std::string content_digest(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace forerun
