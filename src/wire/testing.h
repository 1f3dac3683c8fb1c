// Helpers for tests of messages. They fill structs by their lists of fields with values that a
// format is most likely to lose, and print every field, so that two structs can be compared
// independently of the format.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "wire/bytes.h"
#include "wire/status_parts.h"

namespace forerun::testing {

// Fills a struct with values that depend on `seed`; every field has each of its extreme values for
// some seed.
class ExtremeFiller {
 public:
  static constexpr uint32_t kSeeds = 16;
  explicit ExtremeFiller(uint32_t seed) : turn_(seed) {}

  template <class T>
  void operator()(const char* /*name*/, T& value) {
    fill(value);
  }
  template <class T>
  void choice(const char* /*name*/, T& value, T last) {
    value = next(4) == 0 ? T{} : last;
  }
  template <class T, class VisitItem>
  void list(const char* /*name*/, std::vector<T>& items, VisitItem&& visit_item) {
    items.resize(next(3));
    for (T& item : items) visit_item(item);
  }
  void same(const char* /*name*/, std::string_view /*text*/, const char* /*why*/) {}
  void fail(const char* name, const std::string& what) { failure_ = name + (": " + what); }
  static constexpr bool ok() { return true; }
  // Returns the message of a list that has refused its values; empty if none has.
  const std::string& failure() const { return failure_; }

 private:
  uint32_t next(uint32_t below) { return (turn_++ * 2654435761u >> 16) % below; }

  template <class T>
  void fill(T& value) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_same_v<T, bool>) {
      value = next(2) == 1;
    } else if constexpr (std::is_same_v<T, float>) {
      value = extreme_real<T>(std::bit_cast<float>(0x7fa00001u));
    } else if constexpr (std::is_same_v<T, double>) {
      value = extreme_real<T>(std::bit_cast<double>(uint64_t{0xfff4000000000001u}));
    } else if constexpr (WireNumber<T>) {
      const std::array values{Limits::max(), Limits::min(), static_cast<T>(Limits::max() - 1),
                              static_cast<T>(Limits::min() + 1), static_cast<T>(10)};
      value = values[next(values.size())];
    } else {
      visit_fields(*this, value);
    }
  }
  template <class T>
  T extreme_real(T nan) {
    using Limits = std::numeric_limits<T>;
    const std::array values{
        Limits::infinity(), -Limits::infinity(), nan,     Limits::quiet_NaN(), Limits::max(),
        Limits::lowest(),   Limits::min(),       T{-0.0}, Limits::denorm_min()};
    return values[next(values.size())];
  }
  void fill(std::string& text) {
    using namespace std::string_literals;
    const std::array texts{""s, "\0"s, "a\n\"FRRN\" ü"s, "\xff\xc3(\x80"s, std::string(300, 'x')};
    text = texts[next(texts.size())];
  }
  template <class T>
  void fill(std::vector<T>& items) {
    items.resize(next(4));
    for (T& item : items) fill(item);
  }
  void fill(std::vector<bool>& items) { items.assign(next(9), next(2) == 1); }
  void fill(Bytes& bytes) { bytes.assign(next(5), std::byte{0xff}); }
  template <class T>
  void fill(std::optional<T>& value) {
    value.reset();
    if (next(3) > 0) fill(value.emplace());
  }
  template <class A, class B>
  void fill(std::pair<A, B>& pair) {
    fill(pair.first);
    fill(pair.second);
  }
  void fill(std::chrono::milliseconds& time) {
    int64_t ticks = 0;
    fill(ticks);
    time = std::chrono::milliseconds(ticks);
  }
  void fill(Status& status) {
    StatusParts parts;
    fill(parts);
    status = parts.code == StatusCode::kOk
                 ? Status()
                 : Status(parts.code, parts.message).with_retry_after(parts.retry_after);
  }

  uint32_t turn_;
  std::string failure_;
};

// Prints every field with its name, numbers by their bits.
class FieldPrinter {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    text_ += name;
    text_ += '=';
    print(value);
  }
  template <class T>
  void choice(const char* name, T value, T /*last*/) {
    (*this)(name, static_cast<std::underlying_type_t<T>>(value));
  }
  template <class List, class VisitItem>
  void list(const char* name, const List& items, VisitItem&& visit_item) {
    (*this)(name, uint64_t{items.size()});
    for (const auto& item : items) visit_item(item);
  }
  void same(const char* /*name*/, std::string_view /*text*/, const char* /*why*/) {}
  void fail(const char* name, const std::string& what) { (*this)(name, what); }
  static constexpr bool ok() { return true; }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  void print(const T& value) {
    if constexpr (std::is_same_v<T, float>) {
      print(std::bit_cast<uint32_t>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      print(std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      text_ += std::to_string(value) + ' ';
    } else {
      text_ += "{ ";
      visit_fields(*this, value);
      text_ += "} ";
    }
  }
  void print(const std::string& text) { text_ += std::to_string(text.size()) + ':' + text + ' '; }
  template <class T>
  void print(const std::vector<T>& items) {
    text_ += std::to_string(items.size()) + "[ ";
    for (const auto& item : items) print(static_cast<const T&>(item));
    text_ += "] ";
  }
  void print(std::byte byte) { print(static_cast<uint8_t>(byte)); }
  template <class T>
  void print(const std::optional<T>& value) {
    text_ += value ? "set " : "unset ";
    if (value) print(*value);
  }
  template <class A, class B>
  void print(const std::pair<A, B>& pair) {
    print(pair.first);
    print(pair.second);
  }
  void print(std::chrono::milliseconds time) { print(int64_t{time.count()}); }
  void print(const Status& status) {
    print(StatusParts{status.code(), status.message(), status.retry_after()});
  }

  std::string text_;
};

// Returns every field of a struct as text.
template <class T>
std::string printed(const T& value) {
  FieldPrinter printer;
  visit_fields(printer, value);
  return printer.text();
}

}  // namespace forerun::testing
