// generate --batch FILE: many requests from a file of JSON lines, run concurrently.
#pragma once

#include <string>
#include <vector>

#include "forerun/engine.h"

namespace forerun::app {

struct BatchRequest {
  Request request;
  std::string id;             // as the line has it; empty: it has none
  std::string messages_json;  // a conversation in place of Request::prompt; empty: none
};

// A request a line of `path` (- is standard input), each an object of "prompt" (a text) or
// "messages" (a conversation) and, as it likes, "id", "max_tokens", "temperature", "top_p",
// "top_k", "min_p", "seed" and "stop". What a line does not say is `defaults`'; the seed then is
// its seed and the line's index. Empty lines are passed over. Fails on the first line that is out
// of order, with its number; what only a model can tell (a prompt's length) is not looked at.
Result<std::vector<BatchRequest>> read_batch(const std::string& path, const Request& defaults);

// Runs them, as many at once as the engine takes, and prints a line of JSON a result on standard
// output, in the order of the requests, each as soon as its turn has come: {"index", "id", "text",
// "tokens", ...}, or "error" in place of a text where a request was refused. Ctrl-C ends those that
// run. Fails where any request has.
Status run_batch(Engine& engine, std::vector<BatchRequest> batch);

}  // namespace forerun::app
