// A copy of a Status with visible fields, for messages: Status hides its fields, and a message
// needs a list of fields.
#pragma once

#include <chrono>
#include <string>

#include "forerun/status.h"
#include "wire/bytes.h"

namespace forerun {

struct StatusParts {
  StatusCode code = StatusCode::kOk;
  std::string message;
  std::chrono::milliseconds retry_after{0};
};

// An ok Status is written as its code alone.
template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<StatusParts> auto& parts) {
  visit.choice("code", parts.code, StatusCode::kOverloaded);
  if (parts.code == StatusCode::kOk) return;
  visit("message", parts.message);
  visit("retry_after", parts.retry_after);
}

}  // namespace forerun
