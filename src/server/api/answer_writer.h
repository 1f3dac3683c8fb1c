// Writes the answer of an endpoint from the events of its requests: a stream of JSON chunks, or one
// complete answer. Used only on the loop's thread.
#pragma once

#include <memory>

#include "forerun/event.h"
#include "server/api/api_error.h"
#include "server/http/exchange.h"

namespace forerun::server {

// Returns whether something other than the model ended the text with the last event `last`.
inline bool was_cut(const Event& last) {
  return last.reason != FinishReason::kStop || !last.stop_text.empty() || last.stop_token >= 0;
}

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Called once the engine has accepted all requests.
  virtual void begin(Exchange& exchange) = 0;
  // Called for every event of prompt `prompt_idx` of the call.
  virtual void take(Exchange& exchange, int32_t prompt_idx, const Event& event) = 0;
  // Called once every sample of every prompt has ended without an error.
  virtual void finish(Exchange& exchange) = 0;
  // Called if a request has failed; no event follows.
  virtual void fail(Exchange& exchange, const ApiError& error) = 0;
};

}  // namespace forerun::server
