#include "server/api/completions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "json/field_reader.h"
#include "server/api/format_fields.h"
#include "server/api/generation_fields.h"
#include "server/api/token_json.h"
#include "server/json.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's default

struct CompletionFields {
  StreamFields stream;
  bool echo = false;
  std::vector<std::string> echoed;         // one per prompt
  int32_t echoed_logprobs = -1;            // alternatives of echoed tokens; -1: not echoed
  std::vector<int32_t> first_tokens;       // first tokens of non-empty prompts
  std::optional<int32_t> prompt_logprobs;  // vLLM's field
  std::set<std::string> control_tokens;
  bool shows_special = false;  // the text shows the special tokens in control_tokens
  // Token ids of each prompt, if the client asks for them.
  std::vector<std::vector<int32_t>> prompt_tokens;
  int32_t samples = 1;
};

bool is_tokens(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& item) {
           const auto token = json_integer(item);
           return token && *token >= 0 && *token <= INT32_MAX;
         });
}

bool is_list_of_prompts(const Json& prompt) { return !prompt.is_string() && !is_tokens(prompt); }

// Reads "prompt": a string, a list of tokens, or a list of either.
void read_prompts(OrderedFieldReader& fields, const ServerFacts& facts, const Request& shared,
                  std::vector<Request>& prompts) {
  const std::string accepted = "a string, a list of token ids, or a list of up to " +
                               std::to_string(facts.options.max_prompts) + " of either";
  const Json* const given = fields.any("prompt");
  if (given == nullptr) return fields.refuse("prompt", accepted);
  const auto add = [&](const Json& prompt, const std::string& path) {
    Request request = shared;
    if (prompt.is_string()) {
      request.prompt = prompt.get<std::string>();
    } else if (is_tokens(prompt)) {
      request.prompt_tokens = prompt.get<std::vector<int32_t>>();
    } else if (prompt.is_number()) {
      return fields.refuse("prompt", accepted);
    } else {
      const char* const each = "a string or a list of token ids";
      fields.refuse(path, path == "prompt" ? accepted : each, StatusCode::kInvalidArgument,
                    OrderedJsonValue(&prompt).described());
    }
    prompts.push_back(std::move(request));
  };
  if (!is_list_of_prompts(*given)) return add(*given, "prompt");
  const auto max_prompts = static_cast<size_t>(facts.options.max_prompts);
  if (!given->is_array() || given->empty() || given->size() > max_prompts) {
    return fields.refuse("prompt", accepted);
  }
  for (size_t idx = 0; idx < given->size(); ++idx) {
    add((*given)[idx], "prompt[" + std::to_string(idx) + "]");
  }
}

void refuse_unsupported_completion(OrderedFieldReader& fields) {
  if (!fields.string("suffix").value_or("").empty()) {
    fields.refuse("suffix", "null; text is only written at the prompt's end");
  }
  refuse_given(fields, {{"tools", "null; /v1/chat/completions has tools"}});
  const Json* const tool_choice = fields.any("tool_choice");
  if (tool_choice != nullptr && *tool_choice != "none") {
    fields.refuse("tool_choice", "null or \"none\"; /v1/chat/completions has tools");
  }
  const auto best_of = fields.integer("best_of", 1, 128);
  if (best_of && *best_of != fields.integer("n", 1, 128).value_or(1)) {
    fields.refuse("best_of", "n, or null: every sample is returned");
  }
}

// Prompts with echoed scores have already been tokenized (limit_scores).
void echo_prompts(const Engine& engine, const std::vector<Request>& prompts,
                  CompletionFields& fields) {
  if (!fields.echo) return;
  for (const Request& prompt : prompts) {
    fields.echoed.push_back(prompt.prompt.empty() ? engine.detokenize(prompt.prompt_tokens)
                                                  : prompt.prompt);
    if (fields.echoed_logprobs < 0) continue;
    // The engine refuses an empty prompt.
    fields.first_tokens.push_back(prompt.prompt_tokens.empty() ? 0 : prompt.prompt_tokens.front());
  }
}

class CompletionWriter : public AnswerWriter {
 public:
  CompletionWriter(const Engine& engine, const ServerFacts& facts, CompletionFields fields,
                   std::string id, size_t num_prompts)
      : engine_(engine),
        facts_(facts),
        fields_(std::move(fields)),
        id_(std::move(id)),
        choices_(num_prompts * static_cast<size_t>(fields_.samples)) {}

  void begin(Exchange& exchange) override {
    if (fields_.stream.stream) exchange.begin_events();
  }
  void take(Exchange& exchange, int32_t prompt_idx, const Event& event) override;
  void finish(Exchange& exchange) override;
  void fail(Exchange& exchange, const ApiError& error) override;

 private:
  // Making a null Json throws no exception: NOLINTNEXTLINE(bugprone-exception-escape)
  struct Choice {
    bool begun = false;
    std::string text;
    Json logprobs;
    Json prompt_logprobs;
    TextOffset offset;
    std::string reason;
    Json stop_reason;
    std::vector<int32_t> tokens;
    int64_t num_tokens = 0;
  };

  Json envelope() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", facts_.model()},
            {"system_fingerprint", facts_.info.numeric_fingerprint}};
  }
  // Returns the spelling of the answer's tokens or, with `is_echo`, of a prompt's, which may
  // contain added special tokens.
  TokenSpelling spelling(bool is_echo) const {
    static const std::set<std::string> kNone;
    return {.as_ids = fields_.stream.tokens_as_ids,
            .without_text = is_echo || !fields_.shows_special ? &fields_.control_tokens : &kNone};
  }
  const std::vector<int32_t>& prompt_of(size_t index) const {
    return fields_.prompt_tokens[index / static_cast<size_t>(fields_.samples)];
  }
  // Appends the echoed prompt that precedes the choice's own text, and its log-probabilities.
  void begin_choice(Choice& choice, size_t prompt_idx, const Event& event, std::string& text,
                    Json& logprobs) const;
  void stream_event(Exchange& exchange, size_t index, bool begins, const Event& event,
                    const std::string& text, Json logprobs);

  const Engine& engine_;
  const ServerFacts& facts_;
  const CompletionFields fields_;
  const std::string id_;
  const int64_t created_ = unix_seconds();
  std::vector<Choice> choices_;
  Usage usage_;
};

void CompletionWriter::take(Exchange& exchange, int32_t prompt_idx, const Event& event) {
  const size_t index = static_cast<size_t>(prompt_idx) * static_cast<size_t>(fields_.samples) +
                       static_cast<size_t>(event.sample_idx);
  Choice& choice = choices_[index];
  std::string text = event.text;
  Json logprobs;
  const bool begins = !std::exchange(choice.begun, true);
  if (begins) {
    begin_choice(choice, static_cast<size_t>(prompt_idx), event, text, logprobs);
  }
  if (!event.logprobs.empty()) {
    if (logprobs.is_null()) logprobs = no_completion_logprobs();
    append_completion_logprobs(engine_, event, spelling(/*is_echo=*/false), logprobs,
                               choice.offset);
  }
  if (event.finished) {
    usage_.add(event);
    choice.reason = finish_reason_name(event.reason);
    choice.stop_reason = stop_reason_json(event);
  }
  choice.num_tokens += static_cast<int64_t>(event.tokens.size());
  if (fields_.stream.stream) {
    return stream_event(exchange, index, begins, event, text, std::move(logprobs));
  }
  choice.text += text;
  if (fields_.stream.token_ids) {
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  if (logprobs.is_null()) return;
  if (choice.logprobs.is_null()) choice.logprobs = no_completion_logprobs();
  for (const auto& [name, list] : logprobs.items()) {
    for (Json& entry : list) choice.logprobs[name].push_back(std::move(entry));
  }
}

void CompletionWriter::begin_choice(Choice& choice, size_t prompt_idx, const Event& event,
                                    std::string& text, Json& logprobs) const {
  if (fields_.prompt_logprobs) {
    choice.prompt_logprobs = prompt_logprobs_json(engine_, event, *fields_.prompt_logprobs);
  }
  if (!fields_.echo) return;
  const std::string& echoed = fields_.echoed[prompt_idx];
  text = echoed + text;
  choice.offset = TextOffset(static_cast<int64_t>(text::count_code_points(echoed)));
  if (fields_.echoed_logprobs < 0) return;
  logprobs = no_completion_logprobs();
  append_prompt_logprobs(engine_, event,
                         {.first_token = fields_.first_tokens[prompt_idx],
                          .count = fields_.echoed_logprobs,
                          .text = echoed},
                         spelling(/*is_echo=*/true), logprobs);
}

void CompletionWriter::stream_event(Exchange& exchange, size_t index, bool begins,
                                    const Event& event, const std::string& text, Json logprobs) {
  Json choice = {{"index", index}, {"text", text}, {"logprobs", std::move(logprobs)}};
  choice["finish_reason"] = event.finished ? Json(choices_[index].reason) : Json();
  choice["stop_reason"] = choices_[index].stop_reason;
  if (fields_.stream.token_ids) {
    if (begins) choice["prompt_token_ids"] = prompt_of(index);
    choice["token_ids"] = event.tokens;
  }
  if (fields_.stream.speculation) choice["speculation"] = speculation_json(engine_, event);
  Json chunk = envelope();
  chunk["choices"] = Json::array({std::move(choice)});
  if (fields_.stream.continuous_usage) {
    chunk["usage"] = Usage::so_far(prompt_of(index).size(), choices_[index].num_tokens);
  } else if (fields_.stream.include_usage) {
    chunk["usage"] = nullptr;
  }
  exchange.send_event(json_line(chunk));
}

void CompletionWriter::finish(Exchange& exchange) {
  Json answer = envelope();
  answer["choices"] = Json::array();
  answer["usage"] = usage_.json();
  if (fields_.stream.stream) {
    if (fields_.stream.include_usage) exchange.send_event(json_line(answer));
    exchange.send_event("[DONE]");
    return exchange.end_events();
  }
  for (size_t index = 0; index < choices_.size(); ++index) {
    Choice& choice = choices_[index];
    answer["choices"].push_back({{"index", index},
                                 {"text", std::move(choice.text)},
                                 {"logprobs", std::move(choice.logprobs)},
                                 {"finish_reason", choice.reason},
                                 {"stop_reason", std::move(choice.stop_reason)}});
    Json& added = answer["choices"].back();
    if (fields_.prompt_logprobs) added["prompt_logprobs"] = std::move(choice.prompt_logprobs);
    if (!fields_.stream.token_ids) continue;
    added["prompt_token_ids"] = prompt_of(index);
    added["token_ids"] = std::move(choice.tokens);
  }
  HttpResponse response;
  response.body = json_line(answer);
  exchange.respond(std::move(response));
}

void CompletionWriter::fail(Exchange& exchange, const ApiError& error) {
  if (!fields_.stream.stream) return exchange.respond(error_response(error));
  exchange.send_event(error_json(error));
  exchange.end_events();
}

}  // namespace

std::variant<GenerationCall, ApiError> read_completion(const Engine& engine,
                                                       const ServerFacts& facts,
                                                       const std::string& body,
                                                       const std::string& call_id) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  OrderedFieldReader fields{OrderedJsonValue(&object)};
  Request shared;
  CompletionFields own;
  GenerationCall call;
  read_generation(fields, facts, shared, call.names);
  read_response_format(fields, "response_format", "response_format",
                       {shared.output_format, call.names});
  read_stream(fields, own.stream);
  shared.max_new_tokens =
      static_cast<int32_t>(fields.integer("max_tokens", 0, INT32_MAX).value_or(kDefaultMaxTokens));
  shared.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  shared.record_rounds = own.stream.speculation;
  if (const auto logprobs = fields.integer("logprobs", 0, facts.options.max_logprobs)) {
    shared.sampling.logprobs = static_cast<int32_t>(*logprobs);
  }
  own.echo = fields.boolean("echo").value_or(false);
  own.prompt_logprobs = read_prompt_logprobs(fields, facts, own.stream.stream);
  if (own.echo) own.echoed_logprobs = shared.sampling.logprobs;
  shared.sampling.prompt_logprobs = std::max(own.prompt_logprobs.value_or(-1), own.echoed_logprobs);
  refuse_unsupported_completion(fields);
  own.samples = shared.num_samples;
  read_prompts(fields, facts, shared, call.prompts);
  const size_t choices = call.prompts.size() * static_cast<size_t>(own.samples);
  if (choices > static_cast<size_t>(facts.options.max_choices)) {
    fields.refuse("n", "so many that n times prompts is at most " +
                           std::to_string(facts.options.max_choices));
  }
  if (!fields.ok()) return api_error(fields.status());
  call.prompts_are_listed = is_list_of_prompts(*fields.any("prompt"));
  if (!own.prompt_logprobs) call.names.emplace_back("prompt_logprobs", "logprobs");
  if (const auto error = limit_scores(engine, facts, call.prompts, call.names)) return *error;
  if (own.stream.wants_prompt_tokens()) {
    if (const auto error = tokenize_prompts(engine, call.prompts, call.names)) return *error;
    for (const Request& prompt : call.prompts) own.prompt_tokens.push_back(prompt.prompt_tokens);
  }
  own.shows_special = !shared.skip_special_tokens;
  if (shared.sampling.logprobs >= 0) {
    for (const std::string& name : engine.control_tokens()) own.control_tokens.insert(name);
  }
  echo_prompts(engine, call.prompts, own);
  call.writer = std::make_unique<CompletionWriter>(engine, facts, std::move(own), "cmpl-" + call_id,
                                                   call.prompts.size());
  return call;
}

}  // namespace forerun::server
