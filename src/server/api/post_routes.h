// The endpoints that take POST, and what reads a request to each of them.
#pragma once

#include <string_view>
#include <variant>

#include "server/api/chat_format.h"
#include "server/api/generation.h"
#include "server/api/server_facts.h"
#include "server/http/http_message.h"

namespace forerun::server {

// What is needed to read a POST. `engine`, `facts` and `format` must outlive the call's writer.
struct PostSource {
  const Engine& engine;
  const ServerFacts& facts;
  const ChatFormat& format;
  const HttpRequest& request;
};

// A call, whose answer is generated, or the answer itself.
using PostOutcome = std::variant<GenerationCall, HttpResponse>;

struct PostRoute {
  std::string_view path;
  // Called on the threads that read requests, for several requests at the same time.
  PostOutcome (*read)(const PostSource& from);
};

// Null where the path takes no POST.
const PostRoute* find_post_route(std::string_view path);

}  // namespace forerun::server
