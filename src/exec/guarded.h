// A device's failure is the Step's, however it is told: nothing of it may end the process.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "forerun/status.h"

namespace forerun {

// What `work` returns, or what it has thrown. Running out of KV blocks (kResourceExhausted), which
// a request can wait for, is never told by a device.
template <class Work>
Status guarded(const Work& work) {
  try {
    Status status = work();
    if (status.code() != StatusCode::kResourceExhausted) return status;
    return Status(StatusCode::kInternal, status.message());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kInternal, "no memory for a Step");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, std::string("a Step ended with ") + error.what());
  }
}

}  // namespace forerun
