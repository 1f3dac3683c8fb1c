// Serializes a Status.
#pragma once

#include <string>
#include <utility>

#include "forerun/status.h"
#include "hosts/bytes.h"

namespace forerun {

inline void write_status(const Status& status, ByteWriter& to) {
  to.number(static_cast<uint8_t>(status.code()));
  to.text(status.message());
}

inline Status read_status(ByteReader& from) {
  const auto code = from.number<uint8_t>("status");
  std::string message = from.text("status");
  if (code > static_cast<uint8_t>(StatusCode::kOverloaded)) {
    from.fail("status", "found " + std::to_string(code) + "; accepted: 0 to " +
                            std::to_string(static_cast<uint8_t>(StatusCode::kOverloaded)));
  }
  if (!from.status().ok()) return from.status();
  if (code == 0) return {};
  return Status(static_cast<StatusCode>(code), std::move(message));
}

}  // namespace forerun
