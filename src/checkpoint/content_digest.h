// A digest of bytes (XXH3 with 128 bits), which tells copies of files and tensors apart. Every
// machine computes the same digest. It finds mistakes and broken disks, not deliberate collisions.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forerun {

// Returns 32 hexadecimal digits.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace forerun
