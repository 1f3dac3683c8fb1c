// Forerun's public API: create an Engine, submit Requests, receive Events.
//
//   forerun::EngineOptions options;
//   options.model = "models/demo-target";
//   options.draft = "models/demo-draft";
//   auto engine = forerun::Engine::create(options);
//   forerun::Request request;
//   request.prompt = "def fibonacci(n):";
//   auto stream = (*engine)->submit(request);
//   while (auto event = (*stream)->next()) std::cout << event->text;
//
// Threads: every method of Engine and RequestStream may be called from any thread; a RequestStream
// has one reader at a time. The engine runs its own loop thread. Destroying the Engine cancels what
// is running; streams outlive it and then report the cancellation.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "forerun/trace.h"

namespace forerun {

// How drafts are made and verified. None of it changes which tokens come out (rule "match").
struct SpeculationOptions {
  // "auto" (the planner chooses from what it measures), "autoregressive", "serial_tree" (drafting
  // and verification in turn), "parallel_tree" (at the same time; worth it with draft_devices).
  std::string strategy = "auto";
  // "model", "ngram", "suffix", or a union such as "model+suffix". Empty: "suffix" where there is
  // no draft model, else "model+suffix" for serial_tree's shape "adaptive", and "model" otherwise.
  std::string source = {};
  // "adaptive" or "best"; serial_tree also: "chain", or a static expansion such as "1,1,3,1,1".
  std::string shape = "adaptive";
  std::string accept = "match";  // or "rejection": exact in distribution only
  int32_t verify_tokens = 8;     // bs: rows of a verification, the root included
  int32_t draft_width = 4;       // w: leaves expanded a draft step, "best"
  int32_t draft_depth = 4;       // d: draft steps a round, "best" and "chain"
  bool shared_noise = true;      // the draft ranks by the target's noise
};

struct EngineOptions {
  std::string model;  // directory of the checkpoint, or org/name in the local Hugging Face cache
  std::string draft;  // the draft model's; empty: none
  SpeculationOptions speculation;

  // Devices of the target. cpu:0, cpu:0-3 and cpu:0+2 are devices of one, four and two threads;
  // devices with commas between them form a tensor-parallel group, cpu:0-1,cpu:2-3 one of degree 2.
  // cuda:0 is a GPU, cuda:0,cuda:1 a group of two, each GPU once.
  // Empty: one device of all processors that this process may use and draft_devices does not name.
  std::string devices;
  // Devices of the draft alone, on none of the target's processors or GPUs: both models then run at
  // the same time. Or some of the target's GPUs: both run in turn, the draft on those alone. Empty:
  // both models run on `devices`, in turn.
  std::string draft_devices;
  // Measures and tries splits of `devices` between both models, and both in turn on all of them,
  // and keeps the fastest; EngineInfo::planner_report tells what was found, and what was left out
  // since it cannot be loaded or run. Needs a draft model; takes as long as loading the models once
  // a split, and some seconds.
  bool try_splits = false;
  // "as_stored", "bf16", "f32", "int8".
  std::string weights = "as_stored";
  // The same for the draft model, or "int4_head" (on GPUs, of a hidden_size that is a multiple of
  // 128: as stored but for the head, which becomes int4: less to read where the vocabulary is
  // large), or "auto": int8 on processors where the checkpoint is not quantized. It changes how
  // often guesses are right, never a token.
  std::string draft_weights = "auto";
  // "bf16", "f32", "int8".
  std::string activations = "bf16";

  // Longest sequence, prompt included; 0: the checkpoint's own context, as far as kv_memory_bytes
  // allows.
  int32_t max_context_tokens = 0;
  int32_t max_active_requests = 64;
  // Room for the KV cache of target and draft together; 0: what max_context_tokens needs for one
  // request, at most half of the free memory.
  int64_t kv_memory_bytes = 0;
  // Requests with the same beginning share its KV, with those that run and, until memory is needed,
  // with those that have ended. Never changes a token.
  bool share_prefixes = true;

  // Makes every Step last what it takes on another machine: "FILE#NAME" of bench/profiles, or
  // "FILE" where the file holds one profile. Tokens stay what they are. Empty: no emulation.
  std::string emulate;
  // Record Steps and turns for Engine::take_trace().
  bool trace = false;

  // Called while weights load, from the creating thread: what is loading and how far it is, [0, 1].
  std::function<void(const std::string& what, double fraction)> on_progress;
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct Request {
  // The prompt as text, which passes the tokenizer's post-processor (BOS where it adds one), or, if
  // prompt_tokens is not empty, as tokens taken as they are.
  std::string prompt;
  std::vector<int32_t> prompt_tokens;
  bool add_special_tokens = true;  // false: a chat template has put them in already

  SamplingParams sampling;
  int32_t max_new_tokens = 256;
  std::vector<std::string> stop;     // output ends before the first of these
  std::vector<int32_t> stop_tokens;  // beside the checkpoint's end tokens
  bool ignore_eos = false;
  bool skip_special_tokens = true;        // in the text
  std::chrono::milliseconds deadline{0};  // 0: none; counts from submission

  // Instead of the engine's own: requests with different strategies run side by side.
  std::optional<SpeculationOptions> speculation;
  bool record_rounds = false;  // fill Event::rounds
  bool share_prefix = true;    // false: neither takes KV of other requests nor offers its own
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;  // natural, of the unprocessed distribution
};

// One verification of drafted tokens as it happened.
struct SpeculationRound {
  struct Node {
    int32_t token = 0;
    int32_t parent = -1;  // index in nodes; node 0 is the last verified token
    float logprob = 0.0f;
    bool accepted = false;
  };
  std::vector<Node> nodes;
  int32_t bonus = -1;  // the token that the target drew after the last accepted node
};

struct RequestStats {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  // Prompt tokens (and, after a preemption, output) whose KV was there already: not computed again.
  int32_t reused_tokens = 0;
  int32_t draft_reused_tokens = 0;
  int64_t target_steps = 0;  // after the prefill
  int64_t draft_steps = 0;
  // Mean time of a Step of either model that this request had a part in, the ones that read the
  // prompt aside; 0: there was none.
  double target_step_s = 0.0;
  double draft_step_s = 0.0;
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  int32_t preemptions = 0;  // times it was set aside for lack of KV memory and started again
  double time_to_first_token_s = 0.0;  // from submission
  double decode_s = 0.0;               // from the first token to the last
  std::string strategy;
  // Output tokens but the first, a second, after the first.
  double tokens_per_s() const { return decode_s > 0 ? (output_tokens - 1) / decode_s : 0.0; }
  // The first token comes from the prefill.
  double tokens_per_step() const {
    return target_steps > 0
               ? static_cast<double>(output_tokens - 1) / static_cast<double>(target_steps)
               : 0.0;
  }
  double acceptance() const {
    return drafted_tokens > 0
               ? static_cast<double>(accepted_tokens) / static_cast<double>(drafted_tokens)
               : 0.0;
  }
};

struct Event {
  // What came out since the last event: whole UTF-8 characters, no part of a stop string.
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<bool> drafted;  // per token: it had been guessed
  // SamplingParams::logprobs >= 0: per token the chosen one first, then the alternatives.
  std::vector<std::vector<TokenLogprob>> logprobs;
  std::vector<SpeculationRound> rounds;

  // Set on the last event.
  bool finished = false;
  FinishReason reason = FinishReason::kStop;
  Status error;  // kError
  RequestStats stats;
};

class RequestStream {
 public:
  virtual ~RequestStream() = default;
  // Waits for the next event; nothing after the last one.
  virtual std::optional<Event> next() = 0;
  // As next(), but gives up after `timeout`.
  virtual std::optional<Event> next_for(std::chrono::milliseconds timeout) = 0;
  // Ends the request soon; the last event then says kCancelled. Safe from a signal handler's
  // thread.
  virtual void cancel() = 0;
};

// Facts about a running engine.
struct EngineInfo {
  std::string model_name;
  std::string numeric_fingerprint;  // output is bit-identical among strategies that share it
  std::string emulated;             // the machine of EngineOptions::emulate, with its source
  std::string planner_report;       // what was measured and chosen, a readable table
  int32_t max_context_tokens = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;  // reserved for the cache, paged in on demand
  std::vector<int32_t> eos_token_ids;
  // The checkpoint's own sampling defaults, where it has any, over SamplingParams' defaults.
  SamplingParams default_sampling;
};

class Engine {
 public:
  // Loads the models. Fails with what was wrong, where, and what would be accepted.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  // Checks the request and queues it. Nothing of a refused request runs.
  virtual Result<std::shared_ptr<RequestStream>> submit(Request request) = 0;

  // Text to tokens and back by the checkpoint's tokenizer.
  virtual Result<std::vector<int32_t>> tokenize(const std::string& text,
                                                bool add_special_tokens) const = 0;
  virtual std::string detokenize(const std::vector<int32_t>& tokens) const = 0;
  // Renders messages (JSON: [{"role": ..., "content": ...}, ...]) by the checkpoint's own chat
  // template, with the generation prompt.
  virtual Result<std::string> apply_chat_template(const std::string& messages_json) const = 0;

  // How Steps have kept to the profile of EngineOptions::emulate; all zero without one.
  virtual EmulationStats emulation() const = 0;
  // What has been recorded since the last call; empty without EngineOptions::trace.
  virtual Trace take_trace() = 0;

  // Blocks of KV in use by running requests, target and draft.
  virtual int64_t kv_blocks_in_use() const = 0;
};

}  // namespace forerun
