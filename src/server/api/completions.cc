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

constexpr int32_t kDefaultMaxTokens = 16;  // OpenAI's

struct CompletionFields {
  StreamFields stream;
  bool echo = false;
  std::vector<std::string> echoed;         // by prompt
  int32_t echoed_logprobs = -1;            // alternatives of echoed tokens; -1: no such list
  std::vector<int32_t> first_tokens;       // of prompts that have one
  std::optional<int32_t> prompt_logprobs;  // vLLM's
  std::set<std::string> without_text;      // control tokens
  int32_t samples = 1;
};

bool is_tokens(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& item) {
           const auto token = json_integer(item);
           return token && *token >= 0 && *token <= INT32_MAX;
         });
}

// A string, a list of tokens, or a list of either.
void read_prompts(OrderedFieldReader& fields, const ServerFacts& facts, const Request& shared,
                  std::vector<Request>& prompts) {
  const std::string accepted = "a string, a list of token ids, or a list of up to " +
                               std::to_string(facts.options.most_prompts) + " of either";
  const Json* const given = fields.any("prompt");
  if (given == nullptr) return fields.refuse("prompt", accepted);
  const auto add = [&](const Json& prompt) {
    Request request = shared;
    if (prompt.is_string()) {
      request.prompt = prompt.get<std::string>();
    } else if (is_tokens(prompt)) {
      request.prompt_tokens = prompt.get<std::vector<int32_t>>();
    } else {
      fields.refuse("prompt", accepted);
    }
    prompts.push_back(std::move(request));
  };
  if (given->is_string() || is_tokens(*given)) return add(*given);
  const auto most = static_cast<size_t>(facts.options.most_prompts);
  if (!given->is_array() || given->empty() || given->size() > most) {
    return fields.refuse("prompt", accepted);
  }
  for (const Json& prompt : *given) add(prompt);
}

void refuse_what_is_not_done(OrderedFieldReader& fields) {
  if (!fields.string("suffix").value_or("").empty()) {
    fields.refuse("suffix", "null; text is only written at the prompt's end");
  }
  const auto best_of = fields.integer("best_of", 1, 128);
  if (best_of && *best_of != fields.integer("n", 1, 128).value_or(1)) {
    fields.refuse("best_of", "n, or null: every sample is returned");
  }
}

// Of prompts whose scores are echoed the tokens are known (limit_scores).
void echo_prompts(const Engine& engine, const std::vector<Request>& prompts,
                  CompletionFields& fields) {
  if (!fields.echo) return;
  for (const std::string& name : engine.control_tokens()) fields.without_text.insert(name);
  for (const Request& prompt : prompts) {
    fields.echoed.push_back(prompt.prompt.empty() ? engine.detokenize(prompt.prompt_tokens)
                                                  : prompt.prompt);
    if (fields.echoed_logprobs < 0) continue;
    // An empty one is refused by the engine.
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
  // A null Json is made without an exception: NOLINTNEXTLINE(bugprone-exception-escape)
  struct Choice {
    bool begun = false;
    std::string text;
    Json logprobs;
    Json prompt_logprobs;
    int64_t offset = 0;
    std::string reason;
  };

  Json envelope() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", facts_.model()},
            {"system_fingerprint", facts_.info.numeric_fingerprint}};
  }
  // What stands before the choice's own text, and how likely it is.
  void begin_choice(Choice& choice, size_t prompt_idx, const Event& event, std::string& text,
                    Json& logprobs) const;
  void stream_event(Exchange& exchange, size_t index, const Event& event, const std::string& text,
                    Json logprobs);

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
  if (!std::exchange(choice.begun, true)) {
    begin_choice(choice, static_cast<size_t>(prompt_idx), event, text, logprobs);
  }
  if (!event.logprobs.empty()) {
    if (logprobs.is_null()) logprobs = no_completion_logprobs();
    append_completion_logprobs(engine_, event, logprobs, choice.offset);
  }
  if (event.finished) {
    usage_.add(event);
    choice.reason = finish_reason_name(event.reason);
  }
  if (fields_.stream.stream) {
    return stream_event(exchange, index, event, text, std::move(logprobs));
  }
  choice.text += text;
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
  choice.offset = static_cast<int64_t>(text::count_code_points(echoed));
  if (fields_.echoed_logprobs < 0) return;
  logprobs = no_completion_logprobs();
  append_prompt_logprobs(engine_, event,
                         {.first_token = fields_.first_tokens[prompt_idx],
                          .count = fields_.echoed_logprobs,
                          .text = echoed,
                          .without_text = &fields_.without_text},
                         logprobs);
}

void CompletionWriter::stream_event(Exchange& exchange, size_t index, const Event& event,
                                    const std::string& text, Json logprobs) {
  Json choice = {{"index", index}, {"text", text}, {"logprobs", std::move(logprobs)}};
  choice["finish_reason"] = event.finished ? Json(choices_[index].reason) : Json();
  if (fields_.stream.speculation) choice["speculation"] = speculation_json(engine_, event);
  Json chunk = envelope();
  chunk["choices"] = Json::array({std::move(choice)});
  if (fields_.stream.include_usage) chunk["usage"] = nullptr;
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
                                 {"finish_reason", choice.reason}});
    if (!fields_.prompt_logprobs) continue;
    answer["choices"].back()["prompt_logprobs"] = std::move(choice.prompt_logprobs);
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
  read_generation(fields, facts, shared);
  read_response_format(fields, "response_format", shared.output_format);
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
  refuse_what_is_not_done(fields);
  own.samples = shared.num_samples;
  GenerationCall call;
  read_prompts(fields, facts, shared, call.prompts);
  const size_t choices = call.prompts.size() * static_cast<size_t>(own.samples);
  if (choices > static_cast<size_t>(facts.options.most_choices)) {
    fields.refuse("n", "so many that n times prompts is at most " +
                           std::to_string(facts.options.most_choices));
  }
  if (!fields.ok()) return api_error(fields.status());
  if (const auto error = limit_scores(engine, facts, call.prompts)) return *error;
  echo_prompts(engine, call.prompts, own);
  call.writer = std::make_unique<CompletionWriter>(engine, facts, std::move(own), "cmpl-" + call_id,
                                                   call.prompts.size());
  return call;
}

}  // namespace forerun::server
