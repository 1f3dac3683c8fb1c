#include "base/sha256.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace forerun {
namespace {

constexpr size_t kBlockBytes = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

// Those of the square roots of the first 8 primes.
constexpr State kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

uint32_t big_endian(const std::byte* at) {
  return std::to_integer<uint32_t>(at[0]) << 24 | std::to_integer<uint32_t>(at[1]) << 16 |
         std::to_integer<uint32_t>(at[2]) << 8 | std::to_integer<uint32_t>(at[3]);
}

void add_blocks(State& state, const std::byte* at, size_t blocks) {
  for (; blocks > 0; --blocks, at += kBlockBytes) {
    std::array<uint32_t, 64> words;
    for (size_t t = 0; t < 16; ++t) words[t] = big_endian(at + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t low = words[t - 15], high = words[t - 2];
      words[t] = words[t - 16] + words[t - 7] +
                 (std::rotr(low, 7) ^ std::rotr(low, 18) ^ (low >> 3)) +
                 (std::rotr(high, 17) ^ std::rotr(high, 19) ^ (high >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & f) ^ (~e & g)) + kRounds[t] + words[t];
      const uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const State sums = {a, b, c, d, e, f, g, h};
    for (size_t idx = 0; idx < state.size(); ++idx) state[idx] += sums[idx];
  }
}

#if defined(__x86_64__)
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

// The instructions keep the state as (a, b, e, f) and (c, d, g, h), from the highest lane down, and
// do two rounds each.
__attribute__((target("sha,sse4.1,ssse3"))) void add_blocks_by_sha(State& state,
                                                                   const std::byte* at,
                                                                   size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const to = reinterpret_cast<__m128i*>(state.data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(to), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(to + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks > 0; --blocks, at += kBlockBytes) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int idx = 0; idx < 4; ++idx) {
      words[idx] =
          _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + idx), swap);
    }
#pragma GCC unroll 16
    for (int four = 0; four < 16; ++four) {
      __m128i& now = words[four % 4];
      const __m128i last = words[(four + 3) % 4];
      const __m128i sums = _mm_add_epi32(
          now, _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds.data()) + four));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sums);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sums, 0x0e));
      if (four >= 12) continue;
      const __m128i earlier = _mm_alignr_epi8(last, words[(four + 2) % 4], 4);
      now = _mm_add_epi32(_mm_sha256msg1_epu32(now, words[(four + 1) % 4]), earlier);
      now = _mm_sha256msg2_epu32(now, last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(to, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(to + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#endif

template <class AddBlocks>
Sha256 digest_by(std::span<const std::byte> bytes, const AddBlocks& add) {
  State state = kStart;
  const size_t whole = bytes.size() / kBlockBytes;
  add(state, bytes.data(), whole);
  // The rest, a set bit, zeros, and the number of bits in 64 bits.
  const auto rest = bytes.subspan(whole * kBlockBytes);
  std::array<std::byte, 2 * kBlockBytes> last{};
  if (!rest.empty()) std::memcpy(last.data(), rest.data(), rest.size());
  last[rest.size()] = std::byte{0x80};
  const size_t blocks = rest.size() + 9 <= kBlockBytes ? 1 : 2;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (size_t idx = 0; idx < 8; ++idx) {
    last[blocks * kBlockBytes - 1 - idx] = static_cast<std::byte>(bits >> (8 * idx));
  }
  add(state, last.data(), blocks);
  Sha256 digest;
  for (size_t idx = 0; idx < digest.size(); ++idx) {
    digest[idx] = static_cast<std::byte>(state[idx / 4] >> (24 - 8 * (idx % 4)));
  }
  return digest;
}

}  // namespace

Sha256 portable_sha256(std::span<const std::byte> bytes) { return digest_by(bytes, add_blocks); }

Sha256 sha256(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instructions = has_sha_instructions();
  if (has_instructions) return digest_by(bytes, add_blocks_by_sha);
#endif
  return portable_sha256(bytes);
}

std::string hex(const Sha256& digest) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kHexDigits[std::to_integer<size_t>(byte >> 4)];
    text += kHexDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

}  // namespace forerun
