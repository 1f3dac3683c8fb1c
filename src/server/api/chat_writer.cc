#include "server/api/chat_writer.h"

#include <utility>
#include <vector>

#include "server/api/token_json.h"
#include "server/api/usage.h"
#include "server/json.h"

namespace forerun::server {
namespace {

struct Choice {
  explicit Choice(const AssistantOutputOptions& options) : output(options) {}

  AssistantOutput output;
  bool begun = false;
  std::string reason;
  Json stop_reason;
  int64_t num_tokens = 0;
  // Filled only for an answer that is sent as a whole, not as a stream.
  std::vector<int32_t> tokens;
  std::string content, reasoning;
  Json tool_calls = Json::array();
  Json logprobs;
};

Json tool_call_json(const OutputDelta& delta) {
  return {{"index", delta.call_idx},
          {"id", delta.call_id},
          {"type", "function"},
          {"function", {{"name", delta.name}, {"arguments", ""}}}};
}

// Returns the "delta" of a chunk.
Json delta_json(const OutputDelta& delta) {
  switch (delta.kind) {
    case OutputDelta::Kind::kContent:
      return {{"content", delta.text}};
    case OutputDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case OutputDelta::Kind::kToolCall:
      return {{"tool_calls", Json::array({tool_call_json(delta)})}};
    case OutputDelta::Kind::kToolArguments:
      break;
  }
  Json call = {{"index", delta.call_idx}, {"function", {{"arguments", delta.text}}}};
  return {{"tool_calls", Json::array({std::move(call)})}};
}

void append(Choice& choice, const OutputDelta& delta) {
  switch (delta.kind) {
    case OutputDelta::Kind::kContent:
      choice.content += delta.text;
      return;
    case OutputDelta::Kind::kReasoning:
      choice.reasoning += delta.text;
      return;
    case OutputDelta::Kind::kToolCall: {
      Json call = tool_call_json(delta);
      call.erase("index");
      choice.tool_calls.push_back(std::move(call));
      return;
    }
    case OutputDelta::Kind::kToolArguments: {
      Json& arguments =
          choice.tool_calls[static_cast<size_t>(delta.call_idx)]["function"]["arguments"];
      arguments.get_ref<std::string&>() += delta.text;
    }
  }
}

Json message_json(Choice& choice) {
  Json message = {{"role", "assistant"}};
  const bool only_calls = choice.content.empty() && !choice.tool_calls.empty();
  message["content"] = only_calls ? Json() : Json(std::move(choice.content));
  message["refusal"] = nullptr;
  if (!choice.reasoning.empty()) message["reasoning_content"] = std::move(choice.reasoning);
  if (!choice.tool_calls.empty()) message["tool_calls"] = std::move(choice.tool_calls);
  return message;
}

// Ends a choice. A call that was cut does not count as a call. Text after the only allowed call was
// dropped, so the answer counts as complete however that text ended.
void end_choice(Choice& choice, const Event& event) {
  const bool calls = choice.output.num_tool_calls() > 0 && !choice.output.ends_within_call() &&
                     (event.reason == FinishReason::kStop || choice.output.is_over());
  choice.reason = calls ? "tool_calls" : finish_reason_name(event.reason);
  choice.stop_reason = stop_reason_json(event);
}

class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const Engine& engine, const ServerFacts& facts, ChatAnswerOptions options)
      : engine_(engine),
        facts_(facts),
        stream_(options.stream),
        prompt_logprobs_wanted_(options.prompt_logprobs),
        prompt_tokens_(std::move(options.prompt_tokens)),
        id_(std::move(options.id)) {
    for (size_t idx = 0; idx < options.num_choices; ++idx) choices_.emplace_back(options.output);
  }

  void begin(Exchange& exchange) override {
    if (stream_.stream) exchange.begin_events();
  }
  void take(Exchange& exchange, int32_t prompt_idx, const Event& event) override;
  void finish(Exchange& exchange) override;
  void fail(Exchange& exchange, const ApiError& error) override;

 private:
  Json envelope(const char* object) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", facts_.model()},
            {"system_fingerprint", facts_.info.numeric_fingerprint}};
  }
  // Returns one choice's chunk; `logprobs` may be null.
  Json chunk(size_t index, Json delta, Json logprobs, const std::string& reason) const;
  void stream_event(Exchange& exchange, size_t index, const Event& event,
                    const std::vector<OutputDelta>& deltas);

  const Engine& engine_;
  const ServerFacts& facts_;
  const StreamFields stream_;
  const std::optional<int32_t> prompt_logprobs_wanted_;
  const std::vector<int32_t> prompt_tokens_;
  const std::string id_;
  const int64_t created_ = unix_seconds();
  std::vector<Choice> choices_;
  Json prompt_logprobs_;
  Usage usage_;
};

Json ChatWriter::chunk(size_t index, Json delta, Json logprobs, const std::string& reason) const {
  Json chunk = envelope("chat.completion.chunk");
  Json choice = {{"index", index}, {"delta", std::move(delta)}, {"logprobs", std::move(logprobs)}};
  choice["finish_reason"] = reason.empty() ? Json() : Json(reason);
  chunk["choices"] = Json::array({std::move(choice)});
  if (stream_.continuous_usage) {
    chunk["usage"] = Usage::so_far(prompt_tokens_.size(), choices_[index].num_tokens);
  } else if (stream_.include_usage) {
    chunk["usage"] = nullptr;
  }
  return chunk;
}

void ChatWriter::take(Exchange& exchange, int32_t /*prompt_idx*/, const Event& event) {
  const auto index = static_cast<size_t>(event.sample_idx);
  Choice& choice = choices_[index];
  if (prompt_logprobs_wanted_ && prompt_logprobs_.is_null()) {
    prompt_logprobs_ = prompt_logprobs_json(engine_, event, *prompt_logprobs_wanted_);
  }
  std::vector<OutputDelta> deltas = choice.output.push(event.text);
  choice.num_tokens += static_cast<int64_t>(event.tokens.size());
  if (event.finished) {
    for (OutputDelta& delta : choice.output.finish(was_cut(event))) {
      deltas.push_back(std::move(delta));
    }
    usage_.add(event);
    end_choice(choice, event);
  }
  if (stream_.stream) return stream_event(exchange, index, event, deltas);
  for (const OutputDelta& delta : deltas) append(choice, delta);
  if (event.finished && choice.output.ends_within_call())
    choice.tool_calls.erase(choice.tool_calls.size() - 1);
  if (stream_.token_ids) {
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  if (event.logprobs.empty()) return;
  if (choice.logprobs.is_null())
    choice.logprobs = {{"content", Json::array()}, {"refusal", nullptr}};
  for (Json& token : chat_logprobs(engine_, event, stream_.tokens_as_ids)) {
    choice.logprobs["content"].push_back(std::move(token));
  }
}

void ChatWriter::stream_event(Exchange& exchange, size_t index, const Event& event,
                              const std::vector<OutputDelta>& deltas) {
  Choice& choice = choices_[index];
  if (!std::exchange(choice.begun, true)) {
    Json first = chunk(index, {{"role", "assistant"}, {"content", ""}}, nullptr, "");
    if (stream_.token_ids) first["prompt_token_ids"] = prompt_tokens_;
    if (stream_.continuous_usage) first["usage"] = Usage::so_far(prompt_tokens_.size(), 0);
    exchange.send_event(json_line(first));
  }
  // Probabilities, tokens and rounds are sent with the first chunk of their event, even if that
  // chunk has no text.
  Json logprobs;
  if (!event.logprobs.empty()) {
    logprobs = {{"content", chat_logprobs(engine_, event, stream_.tokens_as_ids)},
                {"refusal", nullptr}};
  }
  Json rounds;
  if (stream_.speculation && !event.tokens.empty()) rounds = speculation_json(engine_, event);
  Json tokens;
  if (stream_.token_ids && !event.tokens.empty()) tokens = event.tokens;
  std::vector<Json> parts;
  for (const OutputDelta& delta : deltas) parts.push_back(delta_json(delta));
  const bool has_more = !logprobs.is_null() || !rounds.is_null() || !tokens.is_null() ||
                        (stream_.continuous_usage && !event.tokens.empty());
  if (parts.empty() && has_more) parts.push_back(Json::object());
  for (Json& part : parts) {
    Json sent = chunk(index, std::move(part), std::exchange(logprobs, nullptr), "");
    if (!rounds.is_null()) sent["choices"][0]["speculation"] = std::exchange(rounds, nullptr);
    if (!tokens.is_null()) sent["choices"][0]["token_ids"] = std::exchange(tokens, nullptr);
    exchange.send_event(json_line(sent));
  }
  if (!event.finished) return;
  Json last = chunk(index, Json::object(), nullptr, choice.reason);
  last["choices"][0]["stop_reason"] = choice.stop_reason;
  exchange.send_event(json_line(last));
}

void ChatWriter::finish(Exchange& exchange) {
  if (stream_.stream) {
    Json last = envelope("chat.completion.chunk");
    last["choices"] = Json::array();
    last["usage"] = usage_.json();
    if (stream_.include_usage) exchange.send_event(json_line(last));
    exchange.send_event("[DONE]");
    return exchange.end_events();
  }
  Json answer = envelope("chat.completion");
  answer["choices"] = Json::array();
  for (size_t index = 0; index < choices_.size(); ++index) {
    Choice& choice = choices_[index];
    answer["choices"].push_back({{"index", index},
                                 {"message", message_json(choice)},
                                 {"logprobs", std::move(choice.logprobs)},
                                 {"finish_reason", choice.reason},
                                 {"stop_reason", std::move(choice.stop_reason)}});
    if (stream_.token_ids) answer["choices"].back()["token_ids"] = std::move(choice.tokens);
  }
  if (stream_.token_ids) answer["prompt_token_ids"] = prompt_tokens_;
  answer["usage"] = usage_.json();
  if (prompt_logprobs_wanted_) answer["prompt_logprobs"] = std::move(prompt_logprobs_);
  HttpResponse response;
  response.body = json_line(answer);
  exchange.respond(std::move(response));
}

void ChatWriter::fail(Exchange& exchange, const ApiError& error) {
  if (!stream_.stream) return exchange.respond(error_response(error));
  exchange.send_event(error_json(error));
  exchange.end_events();
}

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(const Engine& engine, const ServerFacts& facts,
                                               ChatAnswerOptions options) {
  return std::make_unique<ChatWriter>(engine, facts, std::move(options));
}

}  // namespace forerun::server
