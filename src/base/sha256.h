// SHA-256 (FIPS 180-4), which tells contents apart even if somebody makes a collision on purpose.
// It uses the processor's SHA instructions if there are any.
//
// Thread rules: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace forerun {

inline constexpr size_t kSha256Bytes = 32;
using Sha256 = std::array<std::byte, kSha256Bytes>;

Sha256 sha256(std::span<const std::byte> bytes);
// Computes the same without special instructions, for tests.
Sha256 portable_sha256(std::span<const std::byte> bytes);
// Returns 64 digits in lower case.
std::string hex(const Sha256& digest);

}  // namespace forerun
