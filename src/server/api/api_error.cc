#include "server/api/api_error.h"

#include <algorithm>

#include "server/json.h"

namespace forerun::server {
namespace {

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kResourceExhausted:
      return 400;
    case StatusCode::kOverloaded:
      return 429;
    case StatusCode::kCancelled:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 408;
    case StatusCode::kCorrupt:
    case StatusCode::kInternal:
      return 500;
  }
  return 500;
}

// Messages of the engine begin with the field that they are about: "max_tokens: found ...".
std::string field_of(const std::string& message) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]");
  return end != std::string::npos && end > 0 && message[end] == ':' ? message.substr(0, end) : "";
}

}  // namespace

ApiError api_error(int status, const std::string& message) {
  ApiError error;
  error.status = status;
  error.message = message;
  switch (status) {
    case 401:
      error.type = "authentication_error";
      error.code = "invalid_api_key";
      break;
    case 403:
      error.type = "permission_error";
      break;
    case 404:
      error.code = "not_found";
      break;
    case 429:
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      break;
    case 501:
      error.code = "unsupported";
      break;
    default:
      if (status >= 500) error.type = "server_error";
  }
  return error;
}

ApiError api_error(const Status& failure) {
  ApiError error = api_error(http_status(failure.code()), failure.message());
  error.retry_after = failure.retry_after();
  if (error.status == 400) error.param = field_of(failure.message());
  // The engine's own words (check_request.cc), not a client's within a message.
  if (error.param == "prompt" &&
      failure.message().find(" tokens, the context holds ") != std::string::npos) {
    error.code = "context_length_exceeded";
  }
  return error;
}

std::string error_json(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json(text);
  };
  return json_line({{"error",
                     {{"message", error.message},
                      {"type", error.type},
                      {"param", text_or_null(error.param)},
                      {"code", text_or_null(error.code)}}}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(error);
  if (error.status == 429 || error.status == 503) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(error.retry_after).count();
    response.headers.emplace_back("Retry-After", std::to_string(std::max<int64_t>(1, seconds)));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace forerun::server
