// Reads messages of WireWriter, by the same lists of fields.
//
// A reader trusts no input: it fails with kCorrupt if something is missing, too long, out of range
// or left over, and the message names the field and all fields that contain it. It trusts a length
// only as far as bytes have arrived, so a message takes memory in proportion to its own size. After
// a failure all further reads do nothing: values stay as they are, with undefined content.
//
// Thread rules: one thread.
#pragma once

#include <algorithm>
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

class WireReader {
 public:
  // The bytes must outlive the reader.
  explicit WireReader(std::span<const std::byte> from) : rest_(from) {}

  // Fills `value` and reuses its memory.
  template <class T>
  void operator()(const char* name, T& value) {
    if (!ok()) return;
    read(value);
    if (!ok()) add_context(name);
  }
  template <class T>
  T get(const char* name) {
    T value{};
    (*this)(name, value);
    return value;
  }
  // Reads an enumerator from 0 to `last`.
  template <class T>
  void choice(const char* name, T& value, T last) {
    static_assert(std::is_enum_v<T> && std::is_unsigned_v<std::underlying_type_t<T>>);
    const auto number = get<std::underlying_type_t<T>>(name);
    if (number <= static_cast<std::underlying_type_t<T>>(last)) {
      value = static_cast<T>(number);
    } else {
      fail(name, "found " + std::to_string(number) + "; accepted: 0 to " +
                     std::to_string(static_cast<std::underlying_type_t<T>>(last)));
    }
  }
  // Reads a list; `visit_item` visits each item, which starts as a new one.
  template <class T, class VisitItem>
  void list(const char* name, std::vector<T>& items, VisitItem&& visit_item) {
    if (!ok()) return;
    read_list(items, visit_item);
    if (!ok()) add_context(name);
  }
  // Fails with the reason `why` if the message has another text.
  void same(const char* name, std::string_view text, const char* why);
  // Records that the last value is not acceptable: "found 9; accepted: 0 to 4".
  void fail(const char* name, const std::string& what);

  bool ok() const { return !failed_; }
  // Returns the first failure: "message: event: reason: found 9; accepted: 0 to 3".
  Status status() const;
  // Returns the same; bytes that are left over are a failure, too.
  Status finish();

 private:
  template <class T>
  void read(T& value) {
    static_assert(!std::is_enum_v<T>, "an enumerator is read by choice()");
    if constexpr (std::is_same_v<T, bool>) {
      read_bool(value);
    } else if constexpr (WireNumber<T>) {
      take(&value, sizeof(T));
    } else {
      visit_fields(*this, value);
    }
  }
  void read(std::string& text) {
    text.resize(count(1));
    take(text.data(), text.size());
  }
  template <class T>
  void read(std::vector<T>& items) {
    if constexpr (WireNumber<T> || std::is_same_v<T, std::byte>) {
      items.resize(count(sizeof(T)));
      take(items.data(), items.size() * sizeof(T));
    } else {
      read_list(items, [this](T& item) { read(item); });
    }
  }
  void read(std::vector<bool>& items);
  template <class T>
  void read(std::optional<T>& value) {
    value.reset();
    bool is_set = false;
    read_bool(is_set);
    if (is_set) read(value.emplace());
  }
  template <class A, class B>
  void read(std::pair<A, B>& pair) {
    read(pair.first);
    read(pair.second);
  }
  void read(std::chrono::milliseconds& time);
  void read(Status& status);
  void read_bool(bool& value);
  template <class T, class VisitItem>
  void read_list(std::vector<T>& items, VisitItem&& visit_item) {
    const size_t length = count(1);
    items.clear();
    items.reserve(std::min(length, rest_.size() / sizeof(T)));
    for (size_t left = length; left > 0 && ok(); --left) visit_item(items.emplace_back());
  }

  // Returns the length of a list with items of at least `item_bytes` bytes; 0 after a failure.
  size_t count(size_t item_bytes);
  void take(void* to, size_t size) {
    if (size > rest_.size()) return refuse_short(size);
    if (size == 0) return;
    std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  void refuse(std::string what);
  void refuse_short(size_t needed);
  void add_context(const char* name);

  std::span<const std::byte> rest_;
  bool failed_ = false;
  std::string failure_;  // from the outermost field down, without "message: "
};

// Fills `value` from all of `bytes`; `name` is its name in errors. Fails with kCorrupt.
template <class T>
Status from_bytes(const char* name, std::span<const std::byte> bytes, T& value) {
  WireReader from(bytes);
  from(name, value);
  return from.finish();
}

}  // namespace forerun
