// Failures as OpenAI's API tells of them.
#pragma once

#include <chrono>
#include <string>

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

// An error with this status and OpenAI's type for it.
ApiError api_error(int status, const std::string& message);
// What an engine refused, or how a request of it failed.
ApiError api_error(const Status& failure);

// {"error": {...}} on one line.
std::string error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace forerun::server
