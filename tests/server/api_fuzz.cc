// Sends any body to any endpoint of the API. It must be refused with a status and a message, or
// become requests that the engine checks, with compiled formats, whose answer is JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/submit/output_formats.h"
#include "engine/submit/submission.h"
#include "server/api/chat_completions.h"
#include "server/api/completions.h"
#include "server/api/model_routes.h"
#include "server/api/responses.h"
#include "server/json.h"
#include "serving/null_engine.h"
#include "strategies/speculation_plan.h"

namespace {

using namespace forerun;
using namespace forerun::server;

constexpr const char* kModel = "models/demo-target";

[[noreturn]] void fail(const std::string& what, const std::string& body) {
  std::fprintf(stderr, "%s\nbody: %s\n", what.c_str(), body.c_str());
  std::abort();
}

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) fail(result.status().message(), "");
  return std::move(*result);
}

// The objects that are made once; no call may change them.
struct Stage {
  std::unique_ptr<bench::NullEngine> engine =
      value_of(bench::NullEngine::create({.model = kModel}));
  OpenedModel target = value_of(open_model(kModel));
  ChatFormat format = value_of(find_chat_format(*engine, "hermes", "think"));
  OutputFormats formats{target.tokenizer(), target.eos_token_ids()};
  SeedSource seeds;
  ServerFacts facts;

  Stage() {
    facts.info = engine->info();
    facts.options.model_names = {"m"};
  }
};

// Takes the input for decisions; zeros once it is at its end.
class Decisions {
 public:
  Decisions(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  size_t below(size_t limit) { return limit == 0 ? 0 : byte() % limit; }
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  bool is_over() const { return at_ >= size_; }
  std::string rest() {
    std::string text(reinterpret_cast<const char*>(data_ + at_), size_ - at_);
    at_ = size_;
    return text;
  }

 private:
  const uint8_t* data_;
  const size_t size_;
  size_t at_ = 0;
};

constexpr std::string_view kNames[] = {
    "messages", "prompt", "input", "model", "max_tokens", "max_completion_tokens", "temperature",
    "top_p", "top_k", "min_p", "seed", "n", "stop", "stop_token_ids", "logprobs", "top_logprobs",
    "logit_bias", "presence_penalty", "repetition_penalty", "stream", "stream_options",
    "include_usage", "tools", "tool_choice", "parallel_tool_calls", "response_format", "text",
    "format", "grammar", "guided_json", "guided_choice", "guided_regex", "strategy", "speculation",
    "source", "shape", "accept", "view", "verify_tokens", "draft_depth", "return_speculation",
    "echo", "best_of", "prompt_logprobs", "structured_outputs", "regex", "json", "choice",
    "min_tokens", "cache_salt", "add_special_tokens", "priority", "deadline_ms", "ignore_eos",
    "role", "content", "type", "function", "name", "arguments", "parameters", "tool_calls",
    "tool_call_id", "call_id", "output", "instructions", "chat_template_kwargs",
    "add_generation_prompt", "tokens", "with_pieces", "max_output_tokens", "include",
    "return_token_ids", "return_tokens_as_token_ids", "continuous_usage_stats", "refusal",
    "enable_thinking", "tool_choice", "skip_special_tokens",
    // Keywords of JSON schemas.
    "json_schema", "schema", "properties", "required", "items", "prefixItems", "enum", "const",
    "anyOf", "oneOf", "allOf", "$ref", "$defs", "pattern", "minLength", "maxLength", "minimum",
    "maximum", "exclusiveMinimum", "multipleOf", "minItems", "maxItems", "additionalProperties",
    "a", "b", ""};

constexpr std::string_view kTexts[] = {"user",
                                       "assistant",
                                       "system",
                                       "tool",
                                       "developer",
                                       "function",
                                       "text",
                                       "input_text",
                                       "json_object",
                                       "json_schema",
                                       "object",
                                       "array",
                                       "string",
                                       "integer",
                                       "number",
                                       "boolean",
                                       "null",
                                       "auto",
                                       "none",
                                       "required",
                                       "message",
                                       "function_call",
                                       "function_call_output",
                                       "serial_tree",
                                       "autoregressive",
                                       "sparse_self",
                                       "parallel_tree",
                                       "pipelined",
                                       "model+suffix",
                                       "best",
                                       "match",
                                       "streaming_llm",
                                       "#/$defs/a",
                                       "#",
                                       "^[a-z]{2,5}$",
                                       "(a|b)*c{0,9}",
                                       "(?:[^\"])+",
                                       "root ::= \"a\" | b\nb ::= [0-9]+ root?",
                                       "date-time",
                                       "uuid",
                                       "m",
                                       "def f(",
                                       "<|im_end|>",
                                       "\xff\xfe",
                                       "{\"x\": 1}",
                                       "refusal",
                                       "message.output_text.logprobs",
                                       "<think>",
                                       "</think>",
                                       "a",
                                       ""};

Json any_json(Decisions& decisions, int depth) {
  switch (decisions.below(depth > 0 ? 12 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return decisions.below(2) == 1;
    case 2: {
      constexpr std::array<int64_t, 9> kEdges = {0,         1,         -1,        128,    129,
                                                 INT32_MAX, INT64_MAX, INT64_MIN, 1 << 20};
      const size_t edge = decisions.below(16);
      return edge < kEdges.size() ? Json(kEdges[edge]) : Json(decisions.byte());
    }
    case 3: {
      constexpr std::array<double, 6> kEdges = {0.5, -2.5, 1e-30, 1e30, 1e300, 2.0};
      return kEdges[decisions.below(kEdges.size())];
    }
    case 4:
    case 5: {
      std::string text(kTexts[decisions.below(std::size(kTexts))]);
      for (size_t more = decisions.below(8); more > 5; --more)
        text += static_cast<char>(decisions.byte());
      return text;
    }
    case 6:
    case 7: {
      Json list = Json::array();
      for (size_t count = decisions.below(4); count > 0; --count) {
        list.push_back(any_json(decisions, depth - 1));
      }
      return list;
    }
    default: {
      Json object = Json::object();
      for (size_t count = decisions.below(6); count > 0; --count) {
        const auto name = std::string(kNames[decisions.below(std::size(kNames))]);
        object[name] = any_json(decisions, depth - 1);
      }
      return object;
    }
  }
}

// An endpoint's call with whatever else is decided.
Json any_call(Decisions& decisions) {
  Json call = {{"prompt", "x"},
               {"tokens", {1, 2}},
               {"input", "x"},
               {"messages", {{{"role", "user"}, {"content", "x"}}}}};
  while (!decisions.is_over()) {
    const auto name = std::string(kNames[decisions.below(std::size(kNames))]);
    call[name] = any_json(decisions, 5);
  }
  return call;
}

// Checks everything that an answer writer sends.
class CheckedExchange : public Exchange {
 public:
  explicit CheckedExchange(const std::string& body) : body_(body) {}
  void respond(HttpResponse response) override { check(response.body); }
  void begin_events() override {}
  void send_event(const std::string& data, const std::string& event) override {
    if ((data + event).find_first_of("\r\n") != std::string::npos) fail("a line break", body_);
    if (data != "[DONE]") check(data);
  }
  void end_events() override {}
  void when_gone(std::function<void()> /*on_gone*/) override {}

 private:
  void check(const std::string& text) {
    if (Json::parse(text, nullptr, false).is_discarded()) fail("no JSON: " + text, body_);
  }
  const std::string& body_;
};

Event event_of(const Request& request, int32_t sample_idx, bool is_last) {
  Event event;
  event.sample_idx = sample_idx;
  event.text = is_last ? "\"}</tool_call>" : "<tool_call>{\"name\": \"a\", \"arguments\": {\"\xc3";
  event.tokens = {1};
  event.drafted = {true};
  if (request.sampling.logprobs >= 0) event.logprobs = {{{1, -0.5f}, {2, -1.0f}}};
  if (request.sampling.prompt_logprobs >= 0 && !is_last) {
    event.prompt_logprobs = {{{1, -0.5f}, {2, -0.25f}}, {{2, -1.0f}}};
  }
  event.finished = is_last;
  event.last = is_last;
  event.reason = FinishReason::kStop;
  if (is_last && !request.stop.empty()) event.stop_text = request.stop.front();
  if (is_last && !request.stop_tokens.empty()) event.stop_token = request.stop_tokens.front();
  return event;
}

void check_call(Stage& stage, GenerationCall call, const std::string& body) {
  CheckedExchange exchange(body);
  call.writer->begin(exchange);
  for (size_t idx = 0; idx < call.prompts.size(); ++idx) {
    const Request& request = call.prompts[idx];
    const int32_t samples = std::min(request.num_samples, 3);
    for (int32_t sample = 0; sample < samples; ++sample) {
      for (const bool is_last : {false, true}) {
        call.writer->take(exchange, static_cast<int32_t>(idx), event_of(request, sample, is_last));
      }
    }
  }
  call.writer->finish(exchange);
  for (Request& request : call.prompts) {
    SpeculationOptions speculation = request.speculation.value_or(SpeculationOptions());
    auto plan = resolve_speculation(speculation, {.has_draft_model = true}, {});
    if (!plan.ok()) continue;
    const auto samples =
        make_samples(stage.target, stage.facts.info, stage.facts.options.max_logprobs, stage.seeds,
                     &stage.formats, std::move(*plan), std::move(request));
    if (!samples.ok() && samples.status().message().empty()) fail("refused without a word", body);
  }
}

void check(const ApiError& error, const std::string& body) {
  if (error.status < 400 || error.status > 599 || error.message.empty()) fail("a bad error", body);
  if (Json::parse(error_json(error), nullptr, false).is_discarded()) fail("no JSON", body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Stage stage;
  Decisions decisions(data, size);
  const size_t endpoint = decisions.below(5);
  const bool is_raw = decisions.below(8) == 0;
  const std::string body = is_raw ? decisions.rest() : json_line(any_call(decisions));
  if (endpoint < 2) {
    const JsonOrError answer = endpoint == 0
                                   ? tokenize_json(*stage.engine, stage.facts, stage.format, body)
                                   : detokenize_json(*stage.engine, stage.facts, body);
    if (const auto* error = std::get_if<ApiError>(&answer)) check(*error, body);
    return 0;
  }
  auto call = endpoint == 2 ? read_completion(*stage.engine, stage.facts, body, "id")
              : endpoint == 3
                  ? read_response(*stage.engine, stage.facts, stage.format, body, "id")
                  : read_chat_completion(*stage.engine, stage.facts, stage.format, body, "id");
  if (const auto* error = std::get_if<ApiError>(&call)) {
    check(*error, body);
  } else {
    check_call(stage, std::move(std::get<GenerationCall>(call)), body);
  }
  return 0;
}
