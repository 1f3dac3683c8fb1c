// Conversion of every failure of a device, returned or thrown, to the Status of its Step, so that
// no device can end the process.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "forerun/status.h"

namespace forerun {

// Gives a failure of a Step or device the right code: it is never a request's fault
// (kInvalidArgument and the like), and waiting does not help (kResourceExhausted).
inline Status failure_of_step(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
    case StatusCode::kCorrupt:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kInternal:
      return status;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kResourceExhausted:
    case StatusCode::kOverloaded:
      break;
  }
  return Status(StatusCode::kInternal, status.message());
}

// Returns whether the sampler found the row itself faulty, which is the request's fault, not the
// device's.
inline bool is_fault_of_row(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument;
}

// Returns what `work` returns, and turns an exception into a Status.
template <class Work>
Status guarded(const Work& work) {
  try {
    return failure_of_step(work());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kInternal, "no memory for a Step");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, std::string("a Step ended with ") + error.what());
  }
}

}  // namespace forerun
