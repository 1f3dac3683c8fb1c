// A digest of bytes, for telling copies of files and tensors apart: XXH3 of 128 bits. Every machine
// computes the same digest. It finds mistakes and broken disks; it does not defend against somebody
// who makes a collision on purpose.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forerun {

// Returns 32 hexadecimal digits.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace forerun
