// The encoding of messages between processes: little endian, without padding. A list or a text is
// its length in 64 bits, followed by its items; a bool or an enumerator is one byte.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace forerun {

static_assert(std::endian::native == std::endian::little, "messages are little endian");

using Bytes = std::vector<std::byte>;

// Number types that are copied as their bytes in memory, so that infinities and NaN keep every bit.
// bool is excluded, since most byte values are not a bool.
template <class T>
concept WireNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

// T or const T. A list of fields takes either, since one list serves writing and reading.
template <class Maybe, class T>
concept MaybeConst = std::same_as<std::remove_const_t<Maybe>, T>;

}  // namespace forerun
