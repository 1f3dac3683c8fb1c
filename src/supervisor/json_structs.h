// Structs as JSON objects, both ways from one list of their fields:
//
//   template <class Visitor>
//   void visit_fields(Visitor& visit, Point& point) { visit("x", point.x); visit("y", point.y); }
//
// Numbers keep every bit; a number that is not finite is written as a text. A reader checks every
// field: the failure names the first one that is missing, of another type or out of range.
//
// Only for the few files that write or read messages, since it includes nlohmann-json.
#pragma once

#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "forerun/status.h"

namespace forerun {

class StructWriter {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = to_json(value);
  }
  // Values to be written are valid, so this does nothing.
  void fail(const char* /*name*/, const char* /*accepted*/) {}
  nlohmann::json take() { return std::move(object_); }

  template <class T>
  static nlohmann::json to_json(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isfinite(value)) return static_cast<double>(value);
      return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<int64_t>(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      StructWriter inner;
      T copied = value;  // one list serves both ways, and readers change what they visit
      visit_fields(inner, copied);
      return inner.take();
    }
  }
  template <class T>
  static nlohmann::json to_json(const std::optional<T>& value) {
    return value ? to_json(*value) : nlohmann::json();
  }
  template <class T>
  static nlohmann::json to_json(const std::vector<T>& list) {
    nlohmann::json array = nlohmann::json::array();
    for (const auto& value : list) array.push_back(to_json(static_cast<const T&>(value)));
    return array;
  }
  template <class A, class B>
  static nlohmann::json to_json(const std::pair<A, B>& pair) {
    return nlohmann::json::array({to_json(pair.first), to_json(pair.second)});
  }
  static nlohmann::json to_json(std::chrono::milliseconds time) { return time.count(); }

 private:
  nlohmann::json object_ = nlohmann::json::object();
};

class StructReader {
 public:
  // Both must outlive it.
  StructReader(const nlohmann::json& object, Status& status) : object_(object), status_(status) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if (!status_.ok()) return;
    const auto found = object_.find(name);
    if (found == object_.end()) {
      refuse("a value", "nothing");
    } else {
      from_json(*found, value);
    }
    status_ = status_.with_context(name);
  }
  // Records that the field's value has been read but is not acceptable.
  void fail(const char* name, const char* accepted) {
    if (!status_.ok()) return;
    refuse(accepted, "another");
    status_ = status_.with_context(name);
  }

 private:
  void refuse(const char* accepted, const std::string& found) {
    status_ = Status(StatusCode::kCorrupt, "found " + found + "; accepted: " + accepted);
  }
  bool require(bool good, const char* accepted, const nlohmann::json& found) {
    if (!good) refuse(accepted, found.type_name());
    return good;
  }

  template <class T>
  void from_json(const nlohmann::json& from, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (require(from.is_boolean(), "a truth value", from)) value = from.get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      read_real(from, value);
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      read_integer(from, number);
      if (status_.ok()) value = static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(from, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (require(from.is_string(), "a text", from)) value = from.get<std::string>();
    } else {
      if (!require(from.is_object(), "an object", from)) return;
      StructReader inner(from, status_);
      visit_fields(inner, value);
    }
  }
  template <class T>
  void from_json(const nlohmann::json& from, std::optional<T>& value) {
    value.reset();
    if (!from.is_null()) from_json(from, value.emplace());
  }
  template <class T>
  void from_json(const nlohmann::json& from, std::vector<T>& list) {
    if (!require(from.is_array(), "a list", from)) return;
    list.clear();
    for (const nlohmann::json& each : from) {
      T value{};
      from_json(each, value);
      if (!status_.ok()) return;
      list.push_back(std::move(value));
    }
  }
  template <class A, class B>
  void from_json(const nlohmann::json& from, std::pair<A, B>& pair) {
    if (!require(from.is_array() && from.size() == 2, "a pair", from)) return;
    from_json(from[0], pair.first);
    if (status_.ok()) from_json(from[1], pair.second);
  }
  void from_json(const nlohmann::json& from, std::chrono::milliseconds& time) {
    int64_t count = 0;
    read_integer(from, count);
    time = std::chrono::milliseconds(count);
  }

  template <class T>
  void read_integer(const nlohmann::json& from, T& value) {
    bool fits = false;
    if (from.is_number_unsigned()) {
      fits = from.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
    } else if (from.is_number_integer()) {
      const auto number = from.get<int64_t>();
      fits = std::is_signed_v<T> && number >= static_cast<int64_t>(std::numeric_limits<T>::min());
    }
    if (require(fits, "a whole number in range", from)) value = from.get<T>();
  }
  template <class T>
  void read_real(const nlohmann::json& from, T& value) {
    if (from.is_number()) {
      value = from.get<T>();
    } else if (from == "nan") {
      value = std::numeric_limits<T>::quiet_NaN();
    } else if (require(from == "inf" || from == "-inf", "a number", from)) {
      value =
          from == "inf" ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
    }
  }

  const nlohmann::json& object_;
  Status& status_;
};

}  // namespace forerun
