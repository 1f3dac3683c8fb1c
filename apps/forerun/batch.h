// generate --batch FILE: runs many requests from a file of JSON lines concurrently.
#pragma once

#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::app {

struct BatchRequest {
  Request request;
  std::string id;             // the line's own id; empty: none
  std::string messages_json;  // a conversation in place of Request::prompt; empty: none
};

// Reads one request from each line of `path` (- is standard input). A line is an object with
// "prompt" (a text) or "messages" (a conversation) and, optionally, "id", "max_tokens", "seed",
// "stop" and the numeric sampling fields (forerun/sampling_fields.h). Fields that a line omits come
// from `defaults`; the seed is then the default seed plus the line's index. Skips empty lines.
// Fails on the first invalid line, naming its number. Does not check what only a model can check (a
// prompt's length).
Result<std::vector<BatchRequest>> read_batch(const std::string& path, const Request& defaults);

// Runs the requests, as many at once as the engine accepts, and prints each result as a line of
// JSON on standard output, in the order of the requests, as early as that order allows: {"index",
// "id", "text", "tokens", ...}, or "error" in place of the text if a request was refused. Ctrl-C
// ends the running requests. Fails if any request has failed.
Status run_batch(Engine& engine, std::vector<BatchRequest> batch);

}  // namespace forerun::app
