// JSON of requests and answers, for headers that only name it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace forerun::server {

using Json = nlohmann::ordered_json;

}  // namespace forerun::server
