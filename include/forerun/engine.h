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
  std::string draft;  // the same for the draft model; empty: none
  SpeculationOptions speculation;

  // Devices of the target. cpu:0, cpu:0-3 and cpu:0+2 are devices of one, four and two threads;
  // devices with commas between them form a tensor-parallel group, cpu:0-1,cpu:2-3 one of degree 2.
  // cuda:0 is a GPU, cuda:0,cuda:1 a group of two, each GPU once.
  // Groups with slashes between them are the stages of a pipeline, each with consecutive layers:
  // cpu:0,cpu:1/cpu:2, cuda:0/cuda:1.
  // Empty: one device of all processors that this process may use and draft_devices does not name.
  std::string devices;
  // Number of pipeline stages of the target; 0: one stage for each group in `devices`. Several
  // stages on a single group of processors share it.
  int32_t stages = 0;
  // The number of layers of each stage, in order. Empty: layers are divided so that the largest
  // stage has as few bytes of weights as possible.
  std::vector<int32_t> stage_layers;
  // Devices of the draft model. If none of them is the target's, both models run at the same time.
  // If they are some of the target's GPUs, both run sequentially, the draft on those GPUs alone.
  // Empty: both models run on `devices`, sequentially.
  std::string draft_devices;
  // The processes of a launch with this process as coordinator. The other processes are the
  // target's stages, each on the `devices` of its host; the draft runs on devices of this process.
  // Null: everything runs in this process.
  std::shared_ptr<Hosts> hosts;
  // With `hosts`: to which of them the coordinator sends what their stages need of the target.
  // "missing": to those on which `model` names nothing; "always": to all; "never".
  std::string send_model = "missing";
  // The folder in which such a host keeps what it was sent. Empty: $XDG_CACHE_HOME/forerun/models
  // of that host, by default ~/.cache/forerun/models.
  std::string model_cache;
  // Measures and tries splits of `devices` between both models, and both models sequentially on all
  // devices, and keeps the fastest. EngineInfo::planner_report shows the results, and the splits
  // that were left out because they cannot be loaded or run. Needs a draft model. Loads the models
  // once for each split, which takes most of the time.
  bool try_splits = false;
  // Format that the weights of the layers and the head are rounded to when they are loaded: "f32",
  // "bf16", "f16", "int8", or a grouped one such as "q4_0", "q4_1" and "q8_0" (the message of a
  // refusal lists all). "as_stored" rounds nothing. "int8_head" rounds only the head, to int8,
  // which halves a bf16 head (on GPUs, hidden_size must be a multiple of 64). Weights that are
  // stored in the format are not rounded again. GPUs accept "as_stored" and "int8_head". The output
  // is that of the rounded weights.
  std::string weights = "as_stored";
  // Format of the draft model's weights: a value of `weights`, "int4_head" (GPUs only, hidden_size
  // a multiple of 128: the head becomes int4, the rest stays as stored), "int4" (also the layers
  // whose inputs are multiples of 128), or "auto": on processors int8 if the checkpoint is not
  // quantized, on GPUs int4_head if the head has at least 64 MiB. Changes the acceptance rate,
  // never a token.
  std::string draft_weights = "auto";
  // Format of activations: "bf16", "f32" or "int8".
  std::string activations = "bf16";

  // Largest number of tokens of a sequence, prompt included; 0: the checkpoint's own context, as
  // far as kv_memory_bytes allows.
  int32_t max_context_tokens = 0;
  int32_t max_active_requests = 64;
  // The number of requests that may wait to be admitted; each sample counts. submit() refuses a
  // request with kOverloaded if more than this plus max_active_requests would be in the engine. -1:
  // no limit.
  int32_t max_waiting_requests = -1;
  // A request that waits gains one level of Request::priority each time this many seconds have
  // passed; 0: waiting raises no priority. With any value, about a tenth of the tokens is reserved
  // for requests of a lower priority while any of them waits. At most 86400.
  double priority_ageing_s = 10.0;
  // The largest number of alternatives that a request may ask for (SamplingOptions::logprobs).
  int32_t max_logprobs = 20;
  // Bytes of the KV cache of target and draft together; 0: as many as max_context_tokens needs for
  // one request, at most half of the free memory.
  int64_t kv_memory_bytes = 0;
  // The number of tokens whose KV the draft model keeps for each request, with any strategy: the
  // first and the latest ones, like view "streaming_llm" of that budget. This bounds the draft's KV
  // cache for texts of any length and leaves more memory to the target's; the acceptance rate may
  // fall. At least 192; 0: all tokens, or the draft's own context if that is shorter than the
  // engine's (EngineInfo::draft_window is the number in use). Never changes a token.
  int32_t draft_window = 0;
  // Requests that begin with the same tokens share the KV of these tokens: with running requests
  // and, until the memory is needed, with ended ones. Never changes a token.
  bool share_prefixes = true;
  // How long a Step may take, in milliseconds, when rows of a prompt are added to those of decoding
  // requests. The shorter it is, the steadier tokens come while prompts are read, and the longer
  // prompts take. 0: the engine decides by measured costs. A prompt then makes a decoding Step take
  // at most 1.8 times as long, or longer if more prompts wait than requests decode. If no request
  // decodes, a Step may take a quarter of a second.
  double step_budget_ms = 0.0;

  // Folder of a cache that keeps, by machine, models and build, the measured costs of Steps and the
  // measurements by which strategy "auto" chooses a strategy, so that later starts need not measure
  // them. It holds small files, which the engine creates and replaces. If a file or the folder is
  // unusable, the engine logs that and measures the costs. Empty: nothing is kept.
  // default_cost_cache() returns the user's folder. Never changes a token.
  std::string cost_cache;
  // Measures the costs of Steps even if the cache has them, and replaces them there. Also discards
  // the measurements of "auto".
  bool measure_anew = false;

  // Makes every Step last as long as it would on another machine: "FILE#NAME" of bench/profiles, or
  // "FILE" if the file holds one profile. Tokens do not change. Empty: no emulation.
  std::string emulate;
  // Records Steps and turns for Engine::take_trace().
  bool trace = false;

  // Called on the creating thread while weights load, with the name of the part that is loading and
  // the fraction that has been loaded, in [0, 1].
  std::function<void(const std::string& what, double fraction)> on_progress;
};

// Returns $XDG_CACHE_HOME/forerun/step-costs, by default ~/.cache/forerun/step-costs; an empty
// string if the environment sets neither to an absolute path.
std::string default_cost_cache();

// Facts about a running engine.
struct EngineInfo {
  std::string model_name;
  std::string numeric_fingerprint;  // output is bit-identical among strategies that share it
  std::string emulated;             // the machine of EngineOptions::emulate, with its source
  std::string planner_report;       // what was measured and chosen, a readable table
  int32_t max_context_tokens = 0;   // the target's limit
  int32_t draft_window = 0;         // tokens of a request's KV that the draft model keeps; 0: all
  int32_t vocab_size = 0;           // input and output tokens have ids below it
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;  // reserved for the cache, paged in on demand
  std::vector<int32_t> eos_token_ids;
  // The values that unset fields of SamplingOptions take: the checkpoint's own defaults, else those
  // of SamplingParams. Greedy if the checkpoint says nothing about sampling.
  SamplingParams default_sampling;
};

class Engine {
 public:
  // Loads the models. The message of a failure says what was wrong, where, and what is accepted.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  // Checks the request and queues it. A refused request does not run and gives no event; after
  // kOverloaded, Status::retry_after() says when to try again.
  // Dropping the last pointer to the stream cancels the request.
  virtual Result<std::shared_ptr<RequestStream>> submit(Request request) = 0;
  // Does the same, but the request's events go to `queue`, each with `tag`; the first may arrive
  // before the call returns. The request lives as long as both the handle and the queue.
  virtual Result<std::shared_ptr<RequestHandle>> submit(Request request, CompletionQueue& queue,
                                                        uint64_t tag) = 0;

  // Compiles an output format and keeps it in a cache of the latest formats, so that submit() does
  // not have to. Most formats take a few milliseconds, some a second or two. With `quick`, returns
  // false if the format takes more than about 30 ms; the caller then calls again without `quick`
  // from a thread that may wait. Otherwise returns true, also for a format that submit() will
  // refuse. May be called from any thread.
  virtual bool prepare_format(const OutputFormat& format, bool quick) = 0;

  // Converts text to tokens and back, with the checkpoint's tokenizer.
  virtual Result<std::vector<int32_t>> tokenize(const std::string& text,
                                                bool add_special_tokens) const = 0;
  virtual std::string detokenize(const std::vector<int32_t>& tokens) const = 0;
  // Returns the bytes of a token, not always whole characters; for a special token, its name. Fails
  // with kInvalidArgument if the id is beyond the vocabulary, with kNotFound if it has no token.
  virtual Result<std::string> token_bytes(int32_t token) const = 0;
  // Returns the names of the special tokens. tokenize() reads each of these names in a text as that
  // token.
  virtual std::vector<std::string> control_tokens() const = 0;
  // Renders a conversation by the checkpoint's own chat template, which is read when the engine is
  // created. The text contains the special tokens, so submit it with add_special_tokens = false.
  // Fails with kNotFound if the checkpoint has no template. If the template is broken, the message
  // names the line; if the template refuses the conversation, it is the template's own message.
  virtual Result<std::string> apply_chat_template(const ChatPrompt& prompt) const = 0;
  Result<std::string> apply_chat_template(const std::string& messages_json) const {
    ChatPrompt prompt;
    prompt.messages_json = messages_json;
    return apply_chat_template(prompt);
  }

  // Returns the text of that template, followed by that of the template for tools, if the
  // checkpoint has a separate one. Empty: the checkpoint has no template.
  virtual std::string chat_template() const = 0;

  // Returns how well Steps have kept to the profile of EngineOptions::emulate; all zero without
  // one.
  virtual EmulationStats emulation() const = 0;
  // Returns the trace recorded since the last call; empty without EngineOptions::trace.
  virtual Trace take_trace() = 0;

  // Returns the engine's present load. Takes microseconds and blocks no other thread.
  virtual EngineLoad load() const = 0;
  // Returns the number of KV blocks that running requests use, target and draft together.
  virtual int64_t kv_blocks_in_use() const = 0;

  // Returns the tokens of a request's prompt, the same as tokenize() does. Fails as submit() does
  // if the context has no room for them; if the text's length alone shows that, it fails without
  // tokenizing.
  virtual Result<std::vector<int32_t>> tokenize_prompt(const std::string& text,
                                                       bool add_special_tokens) const = 0;
};

}  // namespace forerun
