// Counter-based random numbers: the noise of a token is a pure function of (stream seed, position,
// token id). So speculation that guesses wrong has no generator state to rewind, and any device can
// compute any element on its own.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace forerun {

// Independent random streams for the different uses of one request's seed.
enum class NoiseStream : uint32_t {
  kTarget = 0,      // the sampler's own Gumbel noise; shared with the draft under rule `match`
  kDraft = 1,       // the draft's own sampling under rule `rejection`
  kAcceptance = 2,  // the acceptance test of rule `rejection`
  kResidual = 3,    // the residual draw of rule `rejection`
};

// Computes a block of Philox 4x32 with 10 rounds (Salmon et al., 2011).
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Returns 32 random bits for (seed, stream, position, index); four neighbouring indices share one
// Philox block.
constexpr uint32_t noise_bits(uint64_t seed, NoiseStream stream, int32_t position, uint32_t index) {
  const auto block = philox(
      {index / 4, static_cast<uint32_t>(position), static_cast<uint32_t>(stream), 0x464f5245u},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return block[index % 4];
}

// Returns a uniform number in (0, 1), never 0 or 1: the 24 high bits, centred in their interval.
constexpr float noise_uniform(uint32_t bits) {
  return (static_cast<float>(bits >> 8) + 0.5f) * 0x1p-24f;
}

// Returns standard Gumbel noise -log(-log(u)), within [kMinGumbel, kMaxGumbel].
inline float gumbel_noise(uint32_t bits) {
  // Computes in double, so that every libm and device rounds to the same float.
  const double u = (static_cast<double>(bits >> 8) + 0.5) * 0x1p-24;
  return static_cast<float>(-std::log(-std::log(u)));
}
// Returns an upper bound of gumbel_noise(bits) without a logarithm. The bound includes a margin for
// the rounding of score + noise, and exceeds the noise by at most 0.07 near the largest values. It
// holds because -log(u) >= 1 - u, and because log2 lies above the chords between powers of two; a
// float's bits, read as an integer, follow these chords.
constexpr float gumbel_bound(uint32_t bits) {
  const uint32_t doubled = ((1u << 25) - 1u) - ((bits >> 8) << 1);  // (1 - u) * 2^25
  const auto as_integer =
      static_cast<float>(std::bit_cast<int32_t>(static_cast<float>(static_cast<int32_t>(doubled))));
  // 152 ln 2 - bits * ln 2 / 2^23.
  return (105.35837f + 1e-3f) - as_integer * 8.26295829e-8f;
}

inline constexpr float kMaxGumbel = 17.33f;  // -log(-log(1 - 2^-25)) < 17.33
inline constexpr float kMinGumbel = -2.86f;  // -log(-log(2^-25)) > -2.86

}  // namespace forerun
