// JSON texts of requests and answers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/json_fwd.h"

namespace forerun::server {

// Returns the JSON text on one line. Bytes that are not UTF-8 become U+FFFD.
inline std::string json_line(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace forerun::server
