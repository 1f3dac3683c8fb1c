#include "server/api/api_error.h"

#include <algorithm>
#include <string_view>
#include <utility>

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

// Returns the field at the beginning of an engine's message, such as "max_tokens: found ...".
std::string field_of(const std::string& message) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]");
  return end != std::string::npos && end > 0 && message[end] == ':' ? message.substr(0, end) : "";
}

// Returns the message with its field's name replaced by the client's path of that field.
std::string renamed(const std::string& message, const ParamNames& names) {
  const std::pair<std::string, std::string>* longest = nullptr;
  for (const auto& name : names) {
    const size_t size = name.first.size();
    const bool fits = message.starts_with(name.first) && size < message.size() &&
                      std::string_view(":.[").find(message[size]) != std::string_view::npos;
    if (fits && (longest == nullptr || size > longest->first.size())) longest = &name;
  }
  return longest == nullptr ? message : longest->second + message.substr(longest->first.size());
}

// Returns the engine's error for a prompt that is too long (check_request.cc) in OpenAI's words,
// which clients look for. Empty for any other message, even if it quotes those words.
std::string context_error(const std::string& message) {
  constexpr std::string_view kFound = "prompt: found ";
  constexpr std::string_view kTokens = " tokens; accepted: at most ";
  constexpr std::string_view kContext = " for a context of ";
  const size_t tokens = message.find(kTokens);
  const size_t context = message.find(kContext);
  if (!message.starts_with(kFound) || tokens == std::string::npos || context == std::string::npos) {
    return "";
  }
  const size_t limit = context + kContext.size();
  const size_t limit_end = message.find_first_not_of("0123456789", limit);
  return "This model's maximum context length is " + message.substr(limit, limit_end - limit) +
         " tokens. However, the prompt has " +
         message.substr(kFound.size(), tokens - kFound.size()) +
         " tokens, and one at least must be left to write. Please reduce the length of the prompt.";
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

ApiError api_error(const Status& failure, const ParamNames& names) {
  ApiError error = api_error(http_status(failure.code()), renamed(failure.message(), names));
  error.retry_after = failure.retry_after();
  if (error.status != 400) return error;
  error.param = field_of(error.message);
  if (std::string too_long = context_error(failure.message()); !too_long.empty()) {
    error.message = std::move(too_long);
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
