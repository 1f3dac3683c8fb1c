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
  std::string param = {};  // the wrong field; empty: null
  std::string code = {};   // empty: null
  std::chrono::milliseconds retry_after{0};
};

// Pairs of a field's name in messages and the client's path of that field: {"output_format",
// "response_format.json_schema.schema"}, {"messages[1].content", "input[0].output"}. If a message
// begins with such a name, the client's path replaces it; of several matching names, the longest
// counts.
using ParamNames = std::vector<std::pair<std::string, std::string>>;

// Makes an error with this status and OpenAI's type for it.
ApiError api_error(int status, const std::string& message);
// Makes the error for a request that the engine refused or that has failed.
ApiError api_error(const Status& failure, const ParamNames& names = {});

// Returns {"error": {...}} on one line.
std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace forerun::server
