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
// A stream is read by whoever waits for it; a server reads thousands of requests from one thread
// through a CompletionQueue (completion_queue.h, docs/embedding.md).
//
// Threads: every method of Engine and RequestStream may be called from any thread; a RequestStream
// has one reader at a time. The engine runs its own loop thread. Destroying the Engine cancels what
// is running; streams and queues outlive it and then report the cancellation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "forerun/chat_prompt.h"
#include "forerun/completion_queue.h"
#include "forerun/engine_load.h"
#include "forerun/event.h"
#include "forerun/output_format.h"
#include "forerun/request.h"
#include "forerun/request_stream.h"
#include "forerun/sampling_params.h"
#include "forerun/speculation_options.h"
#include "forerun/status.h"
#include "forerun/trace.h"

namespace forerun {

class Hosts;  // hosts/hosts.h

struct EngineOptions {
  std::string model;  // directory of the checkpoint, or org/name in the local Hugging Face cache
  std::string draft;  // the draft model's; empty: none
  SpeculationOptions speculation;

  // Devices of the target. cpu:0, cpu:0-3 and cpu:0+2 are devices of one, four and two threads;
  // devices with commas between them form a tensor-parallel group, cpu:0-1,cpu:2-3 one of degree 2.
  // cuda:0 is a GPU, cuda:0,cuda:1 a group of two, each GPU once.
  // Groups with slashes between them are the stages of a pipeline, each with consecutive layers:
  // cpu:0,cpu:1/cpu:2, cuda:0/cuda:1.
  // Empty: one device of all processors that this process may use and draft_devices does not name.
  std::string devices;
  // How many stages the target is cut into; 0: as many as `devices` has groups. Several on a single
  // group of processors share them.
  int32_t stages = 0;
  // Layers of each stage, the first one's first; empty: so that the fullest stage has the least
  // weight.
  std::vector<int32_t> stage_layers;
  // Devices of the draft alone, on none of the target's processors or GPUs: both models then run at
  // the same time. Or some of the target's GPUs: both run sequentially, the draft on those alone.
  // Empty: both models run on `devices`, sequentially.
  std::string draft_devices;
  // The processes of a launch, this one its coordinator: the target's stages are the others, each
  // on its host, with `devices` of that. The draft's devices are this process's. Null: all runs
  // here.
  std::shared_ptr<Hosts> hosts;
  // Measures and tries splits of `devices` between both models, and both sequentially on all of
  // them, and keeps the fastest; EngineInfo::planner_report tells what was found, and what was left
  // out since it cannot be loaded or run. Needs a draft model; takes as long as loading the models
  // once a split, and some seconds.
  bool try_splits = false;
  // "as_stored", "bf16", "f32", "int8", "int8_head": as stored but for the head, which becomes
  // int8, half to read where it is bf16 (on GPUs of a hidden_size that is a multiple of 64). GPUs
  // accept "as_stored" and "int8_head". Tokens are those of the weights that this makes.
  std::string weights = "as_stored";
  // The same for the draft model, or "int4_head" (on GPUs, of a hidden_size that is a multiple of
  // 128: as stored but for the head, which becomes int4), or "auto": int8 on processors where the
  // checkpoint is not quantized, int4_head on GPUs where the head is 64 MiB and more. It changes
  // how often guesses are right, never a token.
  std::string draft_weights = "auto";
  // "bf16", "f32", "int8".
  std::string activations = "bf16";

  // Longest sequence, prompt included; 0: the checkpoint's own context, as far as kv_memory_bytes
  // allows.
  int32_t max_context_tokens = 0;
  int32_t max_active_requests = 64;
  // Requests that may wait for their turn. submit() refuses with kOverloaded what would make more
  // than this and max_active_requests together; samples count one by one. -1: no limit.
  int32_t max_waiting_requests = -1;
  // A request that waits gains one level of Request::priority each time this many seconds have
  // passed; 0: waiting raises no priority. Whatever the value, about a tenth of the tokens is kept
  // for requests of a lower priority while any of them waits. At most 86400.
  double priority_ageing_s = 10.0;
  // Most alternatives that a request may ask for (SamplingOptions::logprobs).
  int32_t max_logprobs = 20;
  // Room for the KV cache of target and draft together; 0: what max_context_tokens needs for one
  // request, at most half of the free memory.
  int64_t kv_memory_bytes = 0;
  // How many tokens of a request's KV the draft model keeps, whatever the strategy: its first ones
  // and the latest, as view "streaming_llm" of that budget shows them. The draft's part of the
  // memory then stays that small for texts of any length, which leaves more to the target's cache;
  // the draft may guess worse. 192 and more; 0: all of them, or as many as the draft was made for
  // where that is less than the context (EngineInfo::draft_window has the number that is used).
  // Never changes a token.
  int32_t draft_window = 0;
  // Requests with the same beginning share its KV, with those that run and, until memory is needed,
  // with those that have ended. Never changes a token.
  bool share_prefixes = true;
  // How long a Step may take, in milliseconds, when the rows of a prompt are added to those of
  // requests that decode: the shorter, the steadier tokens come while prompts are read, and the
  // longer prompts take. 0: by what Steps were measured to cost, so that a prompt makes a decoding
  // Step take at most 1.8 times as long, longer where more prompts wait than requests decode, and
  // where nothing decodes a quarter of a second.
  double step_budget_ms = 0.0;

  // Folder that keeps what Steps cost, by machine, models and build, so that a later start need not
  // measure it: small files, made and replaced as needed; whatever is wrong with them or the folder
  // is logged and measured around. Empty: nothing is kept. default_cost_cache() is the user's.
  std::string cost_cache;
  // Measures what Steps cost although the cache has it, and keeps that.
  bool measure_anew = false;

  // Makes every Step last what it takes on another machine: "FILE#NAME" of bench/profiles, or
  // "FILE" where the file holds one profile. Tokens stay what they are. Empty: no emulation.
  std::string emulate;
  // Record Steps and turns for Engine::take_trace().
  bool trace = false;

  // Called while weights load, from the creating thread: what is loading and how far it is, [0, 1].
  std::function<void(const std::string& what, double fraction)> on_progress;
};

// $XDG_CACHE_HOME/forerun/step-costs, by default ~/.cache/forerun/step-costs; empty where the
// environment names neither.
std::string default_cost_cache();

// Facts about a running engine.
struct EngineInfo {
  std::string model_name;
  std::string numeric_fingerprint;  // output is bit-identical among strategies that share it
  std::string emulated;             // the machine of EngineOptions::emulate, with its source
  std::string planner_report;       // what was measured and chosen, a readable table
  int32_t max_context_tokens = 0;   // the target's
  int32_t draft_window = 0;         // tokens of a request's KV that the draft model keeps; 0: all
  int32_t vocab_size = 0;           // tokens that may be fed and come out: ids below it
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;  // reserved for the cache, paged in on demand
  std::vector<int32_t> eos_token_ids;
  // What SamplingOptions' unset fields come to: the checkpoint's own defaults, where it has any,
  // over SamplingParams'. Greedy where it says nothing of sampling.
  SamplingParams default_sampling;
};

class Engine {
 public:
  // Loads the models. Fails with what was wrong, where, and what would be accepted.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  // Checks the request and queues it. Nothing of a refused request runs, and no event of it comes;
  // kOverloaded says when to try again (Status::retry_after).
  // Dropping the last pointer to the stream cancels the request.
  virtual Result<std::shared_ptr<RequestStream>> submit(Request request) = 0;
  // The same, but its events go to `queue`, each with `tag`; they may be there before the call
  // returns. The request lives as long as both the handle and the queue.
  virtual Result<std::shared_ptr<RequestHandle>> submit(Request request, CompletionQueue& queue,
                                                        uint64_t tag) = 0;

  // Compiles an output format and keeps it with the latest ones, so that submit() of a request with
  // it need not. Most formats take a few milliseconds, some a second or two: with `quick` false is
  // returned where this one takes more than some 30 ms, and a caller with a thread for such work
  // asks again there, without. Else true, also for a format that submit() will refuse. From any
  // thread.
  virtual bool prepare_format(const OutputFormat& format, bool quick) = 0;

  // Text to tokens and back by the checkpoint's tokenizer.
  virtual Result<std::vector<int32_t>> tokenize(const std::string& text,
                                                bool add_special_tokens) const = 0;
  virtual std::string detokenize(const std::vector<int32_t>& tokens) const = 0;
  // The bytes that a token stands for, not always whole characters; a special token's are its name.
  // kInvalidArgument where the id lies beyond the vocabulary, kNotFound where it has no token.
  virtual Result<std::string> token_bytes(int32_t token) const = 0;
  // The names of the special tokens: where a text spells one, tokenize() reads it as that token.
  virtual std::vector<std::string> control_tokens() const = 0;
  // Renders a conversation by the checkpoint's own chat template, which is read when the engine is
  // created. Its text holds the special tokens: submit it with add_special_tokens = false. Fails
  // with kNotFound where the checkpoint has no template, with the template's line where it is
  // broken, and with its own message where it refuses the conversation.
  virtual Result<std::string> apply_chat_template(const ChatPrompt& prompt) const = 0;
  Result<std::string> apply_chat_template(const std::string& messages_json) const {
    ChatPrompt prompt;
    prompt.messages_json = messages_json;
    return apply_chat_template(prompt);
  }

  // The text of that template, and behind it that of the one for tools, where the checkpoint has
  // one of its own; empty: there is none.
  virtual std::string chat_template() const = 0;

  // How Steps have kept to the profile of EngineOptions::emulate; all zero without one.
  virtual EmulationStats emulation() const = 0;
  // What has been recorded since the last call; empty without EngineOptions::trace.
  virtual Trace take_trace() = 0;

  // Takes microseconds and holds up nobody.
  virtual EngineLoad load() const = 0;
  // Blocks of KV in use by running requests, target and draft.
  virtual int64_t kv_blocks_in_use() const = 0;

  // The tokens of a request's prompt, as tokenize() gives them. Fails as submit() does where the
  // context has no room for them, and does so without tokenizing where the text's length alone
  // rules it out.
  virtual Result<std::vector<int32_t>> tokenize_prompt(const std::string& text,
                                                       bool add_special_tokens) const = 0;
};

}  // namespace forerun
