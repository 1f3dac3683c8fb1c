#include "server/api/post_routes.h"

#include <utility>

#include "server/api/api_error.h"
#include "server/api/chat_completions.h"
#include "server/api/completions.h"
#include "server/api/model_routes.h"
#include "server/api/responses.h"
#include "server/json.h"

namespace forerun::server {
namespace {

PostOutcome outcome_of(std::variant<GenerationCall, ApiError> call) {
  if (const auto* error = std::get_if<ApiError>(&call)) return error_response(*error);
  return std::get<GenerationCall>(std::move(call));
}

PostOutcome chat_completion(const PostSource& from) {
  return outcome_of(read_chat_completion(from.engine, from.facts, from.format, from.request.body,
                                         from.request.id));
}

PostOutcome completion(const PostSource& from) {
  return outcome_of(read_completion(from.engine, from.facts, from.request.body, from.request.id));
}

PostOutcome response(const PostSource& from) {
  return outcome_of(
      read_response(from.engine, from.facts, from.format, from.request.body, from.request.id));
}

PostOutcome tokenize(const PostSource& from) {
  return response_of(tokenize_json(from.engine, from.facts, from.format, from.request.body));
}

PostOutcome detokenize(const PostSource& from) {
  return response_of(detokenize_json(from.engine, from.facts, from.request.body));
}

PostOutcome embeddings(const PostSource& from) {
  return error_response(api_error(501, from.request.path + ": this server does not support it"));
}

constexpr PostRoute kPostRoutes[] = {
    {"/v1/chat/completions", chat_completion},
    {"/v1/completions", completion},
    {"/v1/responses", response},
    {"/tokenize", tokenize},
    {"/detokenize", detokenize},
    {"/v1/embeddings", embeddings},
};

}  // namespace

const PostRoute* find_post_route(std::string_view path) {
  for (const PostRoute& route : kPostRoutes) {
    if (route.path == path) return &route;
  }
  return nullptr;
}

}  // namespace forerun::server
