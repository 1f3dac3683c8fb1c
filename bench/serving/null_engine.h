// An engine without a model, for measuring the costs of a server apart from its engine.
//
// In every step each running request gets its tokens, as in a batched Step, all from one thread,
// named kThreadName. The text of an event is the time at which it was made, in nanoseconds of
// std::chrono::steady_clock, and a blank, so that a client on the same machine can compute its
// delay. Prompts and sampling are ignored. Tokenizer and chat template are those of a checkpoint;
// its weights are not read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/info/engine_text.h"
#include "engine/info/load_meter.h"
#include "engine/load/opened_model.h"
#include "engine/loop/event_queue.h"
#include "engine/submit/check_request.h"
#include "forerun/engine.h"

namespace forerun::bench {

class NullEngine : public Engine {
 public:
  static constexpr const char* kThreadName = "null-engine";

  struct Options {
    std::string model;                       // the model of its tokenizer and template
    std::chrono::microseconds step{10'000};  // time from one token of a request to the next
    int32_t tokens_per_step = 1;             // number of tokens in one event
    int32_t max_active = 64;
    int32_t max_waiting = 256;
  };

  static Result<std::unique_ptr<NullEngine>> create(const Options& options);
  // Cancels all requests.
  ~NullEngine() override;

  const EngineInfo& info() const override { return info_; }
  Result<std::shared_ptr<RequestStream>> submit(Request request) override;
  Result<std::shared_ptr<RequestHandle>> submit(Request request, CompletionQueue& queue,
                                                uint64_t tag) override;
  bool prepare_format(const OutputFormat&, bool) override { return true; }
  Result<std::vector<int32_t>> tokenize(const std::string& text,
                                        bool add_special_tokens) const override {
    return text_.tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
  }
  Result<std::vector<int32_t>> tokenize_prompt(const std::string& text,
                                               bool add_special_tokens) const override {
    return prompt_tokens(model_, info_.max_context_tokens, text, add_special_tokens);
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const override {
    return text_.tokenizer().decode(tokens, /*skip_special=*/false);
  }
  Result<std::string> token_bytes(int32_t token) const override { return text_.token_bytes(token); }
  std::vector<std::string> control_tokens() const override { return text_.control_tokens(); }
  using Engine::apply_chat_template;
  Result<std::string> apply_chat_template(const ChatPrompt& prompt) const override {
    return text_.apply_chat_template(prompt);
  }
  std::string chat_template() const override { return text_.chat_template(); }
  EmulationStats emulation() const override { return {}; }
  Trace take_trace() override { return {}; }
  EngineLoad load() const override { return load_.load(); }
  int64_t kv_blocks_in_use() const override { return 0; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    std::shared_ptr<EventStream> stream;
    LoadMeter::Place place;
    RequestStats stats;
    int32_t tokens_left = 0;
    Clock::time_point submitted;
    Clock::time_point first_token{};
  };

  NullEngine(const Options& options, OpenedModel model);
  Result<std::shared_ptr<RequestChannel>> enqueue(const Request& request,
                                                  std::shared_ptr<EventQueue> queue, uint64_t tag);
  void run();
  // Adds submitted requests to the running ones; returns whether any run.
  bool take_submissions();
  // Sends an event of each running request.
  void step();
  // Returns false if it was the last event.
  bool send_tokens(Running& running);

  const Options options_;
  const OpenedModel model_;
  const EngineText text_;
  EngineInfo info_;
  LoadMeter load_;
  std::mutex mutex_;  // guards submitted_ and stopping_
  std::condition_variable changed_;
  std::vector<Running> submitted_;  // oldest first
  bool stopping_ = false;
  std::vector<Running> running_;  // used only by the thread
  std::thread thread_;
};

}  // namespace forerun::bench
