// A hash of bytes for in-memory tables and fingerprints. It is the same on every machine of one
// byte order; it does not resist an adversary who chooses keys.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace forerun::text {

inline uint64_t mix_bits(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  value ^= value >> 29;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ (value >> 32);
}

inline uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0) {
  uint64_t hash = (seed + bytes.size() + 1) * 0x9e3779b97f4a7c15u;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
  }
  uint64_t word = 0;
  for (size_t i = 0; i < left; ++i) {
    word |= static_cast<uint64_t>(static_cast<uint8_t>(at[i])) << (8 * i);
  }
  return mix_bits(hash ^ word);
}

}  // namespace forerun::text
