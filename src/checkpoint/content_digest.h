// A digest of bytes, for telling copies of files and tensors apart: XXH3 of 128 bits. The same on
// every machine. It notices mistakes and broken disks, not somebody who makes a collision.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forerun {

// In 32 hexadecimal digits.
std::string content_digest(std::span<const std::byte> bytes);

}  // namespace forerun
