// Status and Result: how Forerun reports an expected failure.
//
// A function that can fail returns Status or Result<T>; neither may be ignored. The message names
// the file, field or parameter, what was found and what would be accepted. No exception leaves
// Forerun.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace forerun {

enum class StatusCode : uint8_t {
  kOk,
  kInvalidArgument,    // the caller's value is out of range or contradictory
  kNotFound,           // a file, tensor or field is missing
  kUnsupported,        // well-formed, but Forerun does not do it
  kCorrupt,            // a file's content is broken
  kResourceExhausted,  // memory, KV blocks, context length
  kCancelled,
  kDeadlineExceeded,
  kInternal,    // a defect in Forerun, or a device error
  kOverloaded,  // the queue of requests is full; Status::retry_after() says when to try again
};

// Returns one word for the code, such as "not_found"; JSON replies use it.
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns the time after which another try is likely to be accepted, after kOverloaded. Zero: not
  // known.
  std::chrono::milliseconds retry_after() const { return retry_after_; }
  Status with_retry_after(std::chrono::milliseconds retry_after) const {
    Status status = *this;
    status.retry_after_ = retry_after;
    return status;
  }

  // Returns the same failure with "context: " in front of its message; an ok Status stays ok.
  Status with_context(const std::string& context) const {
    Status status = *this;
    if (!ok()) status.message_ = context + ": " + message_;
    return status;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::chrono::milliseconds retry_after_{0};
};

// Either a value or a failure.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  // Returns the failure; an ok Status if there is a value.
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  // May be called only if ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace forerun
