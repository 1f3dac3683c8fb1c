// Serializes numbers and lists for messages between processes: little endian, without padding; a
// list is its length and then its items.
//
// A reader trusts no input: it fails if something is missing, too long or out of range, and names
// the field that it was reading. After its first failure everything that it reads is zero or empty.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "forerun/status.h"

namespace forerun {

static_assert(std::endian::native == std::endian::little, "messages are little endian");

using Bytes = std::vector<std::byte>;

// Number types whose bytes are copied as they are in memory. bool is not one of them, since most
// byte values are not a bool.
template <class T>
concept WireNumber = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);

class ByteWriter {
 public:
  explicit ByteWriter(Bytes* to) : to_(to) {}

  template <WireNumber T>
  void number(T value) {
    append(&value, sizeof(T));
  }
  void flag(bool value) { number<uint8_t>(value ? 1 : 0); }
  template <class T>
  void list(const std::vector<T>& items) {
    list(std::span<const T>(items));
  }
  template <WireNumber T>
  void list(std::span<const T> items) {
    number<uint64_t>(items.size());
    append(items.data(), items.size_bytes());
  }
  void list(std::span<const std::byte> bytes) {
    number<uint64_t>(bytes.size());
    append(bytes.data(), bytes.size());
  }
  void text(std::string_view text) { list(std::as_bytes(std::span(text.data(), text.size()))); }
  // The length of a list whose items the caller writes.
  void count(size_t items) { number<uint64_t>(items); }

 private:
  void append(const void* from, size_t size) {
    if (size == 0) return;
    const size_t at = to_->size();
    to_->resize(at + size);
    std::memcpy(to_->data() + at, from, size);
  }
  Bytes* to_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> from) : rest_(from) {}

  template <WireNumber T>
  T number(const char* name) {
    T value{};
    take(name, &value, sizeof(T));
    return value;
  }
  bool flag(const char* name) {
    const auto value = number<uint8_t>(name);
    if (value > 1) fail(name, "found " + std::to_string(value) + "; accepted: 0 and 1");
    return value == 1;
  }
  template <WireNumber T>
  void list(const char* name, std::vector<T>& to) {
    to.resize(count(name, sizeof(T)));
    take(name, to.data(), to.size() * sizeof(T));
  }
  void list(const char* name, Bytes& to) {
    to.resize(count(name, 1));
    take(name, to.data(), to.size());
  }
  std::string text(const char* name) {
    std::string to(count(name, 1), '\0');
    take(name, to.data(), to.size());
    return to;
  }
  // Reads a list's length; the caller may read so many items. Fails if the remaining bytes cannot
  // hold them at `item_bytes` each.
  size_t count(const char* name, size_t item_bytes) {
    const auto items = number<uint64_t>(name);
    if (items <= rest_.size() / item_bytes) return static_cast<size_t>(items);
    fail(name, "found " + std::to_string(items) + " items of " + std::to_string(item_bytes) +
                   " bytes, left are " + std::to_string(rest_.size()) + " bytes");
    return 0;
  }
  void fail(const char* name, const std::string& what) {
    if (status_.ok()) {
      status_ = Status(StatusCode::kCorrupt, "message: " + std::string(name) + ": " + what);
    }
    rest_ = {};
  }
  const Status& status() const { return status_; }
  // The reader's failure; bytes that are left over are a failure, too.
  Status finish() {
    if (!rest_.empty()) {
      fail("end", "found " + std::to_string(rest_.size()) + " more bytes; accepted: none");
    }
    return status_;
  }

 private:
  void take(const char* name, void* to, size_t size) {
    if (size > rest_.size()) {
      fail(name,
           "found " + std::to_string(rest_.size()) + " bytes, needed are " + std::to_string(size));
      return;
    }
    if (size == 0) return;
    std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  std::span<const std::byte> rest_;
  Status status_;
};

}  // namespace forerun
