// Errors in the form of OpenAI's API.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "forerun/status.h"
#include "server/http/http_message.h"

namespace forerun::server {

struct ApiError {
  int status = 400;  // HTTP
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field that was wrong; empty: null
  std::string code = {};   // empty: null
  std::chrono::milliseconds retry_after{0};
};

// How messages name a field, and where the client wrote it: {"output_format",
// "response_format.json_schema.schema"}, {"messages[1].content", "input[0].output"}. In a message
// that begins with such a name, the client's path replaces it; of several names that fit, the
// longest counts.
using ParamNames = std::vector<std::pair<std::string, std::string>>;

// An error with this status and OpenAI's type for it.
ApiError api_error(int status, const std::string& message);
// The error for a request that the engine refused or that has failed.
ApiError api_error(const Status& failure, const ParamNames& names = {});

// {"error": {...}} on one line.
std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace forerun::server
