// One call of an endpoint that generates text, while the engine works on it: its requests, one for
// each prompt, and the writer of its answer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "forerun/request.h"
#include "server/api/answer_writer.h"
#include "server/api/usage.h"
#include "server/engine_client.h"
#include "server/http/event_loop.h"
#include "server/http/exchange.h"
#include "server/metrics.h"

namespace forerun::server {

struct GenerationCall {
  std::vector<Request> prompts;  // at least one
  std::unique_ptr<AnswerWriter> writer;
  ParamNames names;                 // fields that the engine may refuse, with the client's paths
  bool prompts_are_listed = false;  // "prompt" is a list of prompts
};

// The outcome of a call, for the log.
struct CallEnd {
  int status = 200;
  double seconds = 0.0;  // seconds since the call was read
  Usage usage;
  std::string message;  // message of a failure
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // `on_end` is called once, on the loop's thread, at the end of the call or when its client has
  // left (status 499).
  Generation(EngineClient& client, EventLoop& loop, Metrics& metrics,
             std::shared_ptr<Exchange> exchange, std::unique_ptr<AnswerWriter> writer,
             std::function<void(const CallEnd&)> on_end);

  // Submits all prompts; if one is refused, none of them runs and the answer has the reason. Must
  // be called once, on any thread but the loop's.
  void start(std::vector<Request> prompts, ParamNames names, bool prompts_are_listed);
  // Ends the answer with status 503, unless it has ended. Must be called on the loop's thread.
  void cut_off(const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;

  // The functions below are called on the loop's thread.
  void begin();
  void on_event(int32_t prompt_idx, Event&& event);
  void take(int32_t prompt_idx, const Event& event);
  void fail(const ApiError& error);
  void end(int status, const std::string& message);

  EngineClient& client_;
  EventLoop& loop_;
  Metrics& metrics_;
  const std::shared_ptr<Exchange> exchange_;
  const std::unique_ptr<AnswerWriter> writer_;
  const std::function<void(const CallEnd&)> on_end_;
  const Clock::time_point start_ = Clock::now();
  ParamNames names_;
  std::vector<std::shared_ptr<RequestHandle>> handles_;
  struct EarlyEvent {
    int32_t prompt_idx = 0;
    Event event;
  };
  std::vector<EarlyEvent> early_;  // events that arrived before all prompts were submitted
  bool begun_ = false;
  bool ended_ = false;
  size_t prompts_left_ = 0;
  std::vector<std::vector<double>> last_token_s_;  // Event::time_s by prompt and sample
  Usage usage_;
};

}  // namespace forerun::server
