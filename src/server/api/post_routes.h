// The POST endpoints, and the functions that read their requests.
#pragma once

#include <string_view>
#include <variant>

#include "server/api/chat_format.h"
#include "server/api/generation.h"
#include "server/api/server_facts.h"
#include "server/http/http_message.h"

namespace forerun::server {

// The objects that reading a POST needs. `engine`, `facts` and `format` must outlive the call's
// writer.
struct PostSource {
  const Engine& engine;
  const ServerFacts& facts;
  const ChatFormat& format;
  const HttpRequest& request;
};

// A call with an answer to generate, or the answer itself.
using PostOutcome = std::variant<GenerationCall, HttpResponse>;

struct PostRoute {
  std::string_view path;
  // Called on the threads that read requests, for several requests at the same time.
  PostOutcome (*read)(const PostSource& from);
};

// Returns null if the path does not accept POST.
const PostRoute* find_post_route(std::string_view path);

}  // namespace forerun::server
