// Writes values for another process of the same build, in the encoding of bytes.h. A struct is
// written by the list of its fields, which WireReader uses, too:
//
//   template <class Visitor>
//   void visit_fields(Visitor& visit, MaybeConst<Point> auto& point) {
//     visit("x", point.x);
//     visit("y", point.y);
//     visit.choice("color", point.color, Color::kLast);
//   }
//
// A list may skip fields depending on the values of earlier fields. Values: numbers, bools, texts,
// std::vector, std::optional, std::pair, milliseconds, Status, and structs that have a list.
//
// Thread rules: one thread.
#pragma once

#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "wire/bytes.h"
#include "wire/status_parts.h"

namespace forerun {

class WireWriter {
 public:
  // Appends to `to`, which must outlive the writer.
  explicit WireWriter(Bytes* to) : to_(to) {}

  // `name` is for the reader's errors; it is not written.
  template <class T>
  void operator()(const char* /*name*/, const T& value) {
    write(value);
  }
  // Writes an enumerator; `last` is the highest one.
  template <class T>
  void choice(const char* /*name*/, T value, T /*last*/) {
    static_assert(std::is_enum_v<T>);
    write(static_cast<std::underlying_type_t<T>>(value));
  }
  // Writes a list; `visit_item` visits each item.
  template <class List, class VisitItem>
  void list(const char* /*name*/, const List& items, VisitItem&& visit_item) {
    write(uint64_t{items.size()});
    for (const auto& item : items) visit_item(item);
  }
  // Writes a text that both sides know: a reader refuses another one, for the reason `why`.
  void same(const char* /*name*/, std::string_view text, const char* /*why*/) { write(text); }
  // Values that are written are valid, so lists never fail here.
  void fail(const char* /*name*/, const std::string& /*what*/) {}
  static constexpr bool ok() { return true; }

 private:
  template <class T>
  void write(const T& value) {
    static_assert(!std::is_enum_v<T>, "an enumerator is written by choice()");
    if constexpr (std::is_same_v<T, bool>) {
      write(static_cast<uint8_t>(value));
    } else if constexpr (WireNumber<T>) {
      append(&value, sizeof(T));
    } else {
      visit_fields(*this, value);
    }
  }
  void write(std::string_view text) {
    write(uint64_t{text.size()});
    append(text.data(), text.size());
  }
  void write(const std::string& text) { write(std::string_view(text)); }
  template <class T>
  void write(std::span<const T> items) {
    write(uint64_t{items.size()});
    if constexpr (WireNumber<T> || std::is_same_v<T, std::byte>) {
      append(items.data(), items.size_bytes());
    } else {
      for (const T& item : items) write(item);
    }
  }
  template <class T>
  void write(const std::vector<T>& items) {
    write(std::span<const T>(items));
  }
  void write(const std::vector<bool>& items) {
    write(uint64_t{items.size()});
    for (const bool item : items) write(item);
  }
  template <class T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class A, class B>
  void write(const std::pair<A, B>& pair) {
    write(pair.first);
    write(pair.second);
  }
  void write(std::chrono::milliseconds time) { write(int64_t{time.count()}); }
  void write(const Status& status) {
    write(StatusParts{status.code(), status.message(), status.retry_after()});
  }

  void append(const void* from, size_t size) {
    if (size == 0) return;
    const size_t at = to_->size();
    to_->resize(at + size);
    std::memcpy(to_->data() + at, from, size);
  }

  Bytes* to_;
};

// Appends one value.
template <class T>
void append_value(Bytes& to, const T& value) {
  WireWriter writer(&to);
  writer("value", value);
}

template <class T>
Bytes to_bytes(const T& value) {
  Bytes bytes;
  append_value(bytes, value);
  return bytes;
}

}  // namespace forerun
