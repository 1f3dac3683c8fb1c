// Tables of formats by name: each row has a `format` and its `name`.
#pragma once

#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::server {

// Returns the format of the row with this name. Fails with kInvalidArgument for another name,
// listing the existing ones; `what` begins the message.
template <class Rows>
auto format_of_name(const Rows& rows, const char* what, std::string_view name)
    -> Result<decltype(rows[0].format)> {
  std::string accepted;
  for (const auto& row : rows) {
    if (name == row.name) return row.format;
    accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
  }
  return Status(StatusCode::kInvalidArgument,
                what + (": found '" + std::string(name)) + "'; accepted: " + accepted);
}

}  // namespace forerun::server
