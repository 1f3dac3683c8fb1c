#include "server/api/response_writer.h"

#include <optional>
#include <utility>
#include <vector>

#include "server/api/content_tokens.h"
#include "server/api/token_json.h"
#include "server/api/usage.h"
#include "server/json.h"

namespace forerun::server {
namespace {

using DeltaKind = OutputDelta::Kind;

// One entry of "output": reasoning, a message, or a call.
struct Item {
  DeltaKind kind = DeltaKind::kContent;
  std::string id;
  std::string text;  // text, or a call's arguments
  std::string call_id, name;
  Json logprobs = Json::array();  // log-probabilities of the text's tokens
};

Json text_part(const std::string& text, const Json& logprobs = Json::array()) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", logprobs}};
}

Json item_json(const Item& item, const char* status) {
  const bool begun = std::string_view(status) == "in_progress";
  switch (item.kind) {
    case DeltaKind::kReasoning: {
      Json content = Json::array();
      if (!begun) content.push_back({{"type", "reasoning_text"}, {"text", item.text}});
      return {{"type", "reasoning"},
              {"id", item.id},
              {"summary", Json::array()},
              {"content", std::move(content)},
              {"status", status}};
    }
    case DeltaKind::kContent: {
      Json content = Json::array();
      if (!begun) content.push_back(text_part(item.text, item.logprobs));
      return {{"type", "message"},
              {"id", item.id},
              {"role", "assistant"},
              {"status", status},
              {"content", std::move(content)}};
    }
    case DeltaKind::kToolCall:
    case DeltaKind::kToolArguments:
      break;
  }
  return {{"type", "function_call"}, {"id", item.id},    {"call_id", item.call_id},
          {"name", item.name},       {"status", status}, {"arguments", item.text}};
}

class ResponseWriter : public AnswerWriter {
 public:
  ResponseWriter(const Engine& engine, const ServerFacts& facts, bool stream, ResponseEcho echo,
                 const AssistantOutputOptions& output, std::string call_id)
      : engine_(engine),
        facts_(facts),
        stream_(stream),
        echo_(std::move(echo)),
        call_id_(std::move(call_id)),
        output_(output) {
    if (echo_.num_logprobs >= 0) content_tokens_.emplace(engine, output);
  }

  void begin(Exchange& exchange) override {
    if (!stream_) return;
    exchange.begin_events();
    send(exchange, "response.created", {{"response", response_json("in_progress")}});
    send(exchange, "response.in_progress", {{"response", response_json("in_progress")}});
  }
  void take(Exchange& exchange, int32_t prompt_idx, const Event& event) override;
  void finish(Exchange& exchange) override;
  void fail(Exchange& exchange, const ApiError& error) override;

 private:
  Json response_json(const char* status) const;
  // Sends an event of the stream: its type, a number, then the members of `more`.
  void send(Exchange& exchange, const char* type, Json more);
  void take_delta(Exchange& exchange, const OutputDelta& delta);
  void begin_item(Exchange& exchange, const OutputDelta& delta);
  void end_item(Exchange& exchange);
  Json place() const {
    return {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
  }

  const Engine& engine_;
  const ServerFacts& facts_;
  const bool stream_;
  const ResponseEcho echo_;
  const std::string call_id_;
  const int64_t created_ = unix_seconds();
  AssistantOutput output_;
  std::optional<ContentTokens> content_tokens_;  // set if log-probabilities are wanted
  Json logprobs_ = Json::array();  // log-probabilities of text tokens that have not been sent
  std::vector<Item> items_;
  bool item_open_ = false;
  bool incomplete_ = false;   // the answer was cut by its length limit
  bool item_is_cut_ = false;  // the last item was cut
  int64_t sequence_ = 0;
  Usage usage_;
};

void ResponseWriter::send(Exchange& exchange, const char* type, Json more) {
  if (!stream_) return;
  Json event = {{"type", type}, {"sequence_number", sequence_++}};
  event.update(more);
  exchange.send_event(json_line(event), type);
}

Json ResponseWriter::response_json(const char* status) const {
  Json output = Json::array();
  const bool ended = std::string_view(status) != "in_progress";
  for (const Item& item : items_) {
    const bool is_cut = ended && item_is_cut_ && &item == &items_.back();
    output.push_back(item_json(item, is_cut ? "incomplete" : "completed"));
  }
  Json json = {{"id", "resp_" + call_id_},
               {"object", "response"},
               {"created_at", created_},
               {"status", status},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"metadata", Json::object()},
               {"model", facts_.model()},
               {"output", std::move(output)},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"temperature", facts_.info.default_sampling.temperature},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_p", facts_.info.default_sampling.top_p}};
  json.update(echo_.fields);
  if (!ended) return json;
  if (incomplete_) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = {{"input_tokens", usage_.prompt_tokens()},
                   {"input_tokens_details",
                    {{"cached_tokens", usage_.cached_tokens()}, {"cache_write_tokens", 0}}},
                   {"output_tokens", usage_.output_tokens()},
                   {"output_tokens_details", {{"reasoning_tokens", 0}}},
                   {"total_tokens", usage_.prompt_tokens() + usage_.output_tokens()},
                   {"speculation", usage_.speculation()}};
  return json;
}

void ResponseWriter::begin_item(Exchange& exchange, const OutputDelta& delta) {
  end_item(exchange);
  Item item;
  item.kind = delta.kind;
  const char* const prefix = delta.kind == DeltaKind::kContent     ? "msg_"
                             : delta.kind == DeltaKind::kReasoning ? "rs_"
                                                                   : "fc_";
  item.id = prefix + call_id_ + "_" + std::to_string(items_.size());
  item.call_id = delta.call_id;
  item.name = delta.name;
  items_.push_back(std::move(item));
  item_open_ = true;
  send(exchange, "response.output_item.added",
       {{"output_index", items_.size() - 1}, {"item", item_json(items_.back(), "in_progress")}});
  if (delta.kind != DeltaKind::kContent) return;
  Json part = place();
  part.update({{"content_index", 0}, {"part", text_part("")}});
  send(exchange, "response.content_part.added", std::move(part));
}

void ResponseWriter::end_item(Exchange& exchange) {
  if (!std::exchange(item_open_, false)) return;
  const Item& item = items_.back();
  Json done = place();
  switch (item.kind) {
    case DeltaKind::kContent: {
      done.update({{"content_index", 0}, {"text", item.text}, {"logprobs", item.logprobs}});
      send(exchange, "response.output_text.done", std::move(done));
      Json part = place();
      part.update({{"content_index", 0}, {"part", text_part(item.text, item.logprobs)}});
      send(exchange, "response.content_part.done", std::move(part));
      break;
    }
    case DeltaKind::kReasoning:
      done.update({{"content_index", 0}, {"text", item.text}});
      send(exchange, "response.reasoning_text.done", std::move(done));
      break;
    case DeltaKind::kToolCall:
    case DeltaKind::kToolArguments:
      done.update({{"name", item.name}, {"arguments", item.text}});
      send(exchange, "response.function_call_arguments.done", std::move(done));
  }
  send(exchange, "response.output_item.done",
       {{"output_index", items_.size() - 1},
        {"item", item_json(item, item_is_cut_ ? "incomplete" : "completed")}});
}

void ResponseWriter::take_delta(Exchange& exchange, const OutputDelta& delta) {
  const bool begins =
      delta.kind == DeltaKind::kToolCall || (delta.kind != DeltaKind::kToolArguments &&
                                             (!item_open_ || items_.back().kind != delta.kind));
  if (begins) begin_item(exchange, delta);
  if (delta.kind == DeltaKind::kToolCall) return;
  items_.back().text += delta.text;
  Json more = place();
  more["delta"] = delta.text;
  if (delta.kind == DeltaKind::kToolArguments) {
    return send(exchange, "response.function_call_arguments.delta", std::move(more));
  }
  more["content_index"] = 0;
  if (delta.kind == DeltaKind::kReasoning) {
    return send(exchange, "response.reasoning_text.delta", std::move(more));
  }
  for (const Json& entry : logprobs_) items_.back().logprobs.push_back(entry);
  more["logprobs"] = std::exchange(logprobs_, Json::array());
  send(exchange, "response.output_text.delta", std::move(more));
}

void ResponseWriter::take(Exchange& exchange, int32_t /*prompt_idx*/, const Event& event) {
  if (content_tokens_) {
    for (const std::vector<TokenLogprob>& token : content_tokens_->take(event)) {
      logprobs_.push_back(chat_logprob_json(engine_, token, /*as_ids=*/false));
    }
  }
  for (const OutputDelta& delta : output_.push(event.text)) take_delta(exchange, delta);
  if (!event.finished) return;
  for (const OutputDelta& delta : output_.finish(was_cut(event))) take_delta(exchange, delta);
  if (!items_.empty() && items_.back().kind == DeltaKind::kContent) {
    for (const Json& entry : logprobs_) items_.back().logprobs.push_back(entry);
  }
  usage_.add(event);
  incomplete_ = event.reason == FinishReason::kLength;
  item_is_cut_ = incomplete_ || output_.ends_within_call();
  // A call that was cut is left out, except in a stream, which has already sent a part of it.
  if (output_.ends_within_call() && !stream_) {
    items_.pop_back();
    item_open_ = item_is_cut_ = false;
  }
  end_item(exchange);
}

void ResponseWriter::finish(Exchange& exchange) {
  const char* const status = incomplete_ ? "incomplete" : "completed";
  if (!stream_) {
    HttpResponse response;
    response.body = json_line(response_json(status));
    return exchange.respond(std::move(response));
  }
  send(exchange, incomplete_ ? "response.incomplete" : "response.completed",
       {{"response", response_json(status)}});
  exchange.end_events();
}

void ResponseWriter::fail(Exchange& exchange, const ApiError& error) {
  if (!stream_) return exchange.respond(error_response(error));
  send(exchange, "error",
       {{"code", error.code.empty() ? Json() : Json(error.code)},
        {"message", error.message},
        {"param", error.param.empty() ? Json() : Json(error.param)}});
  exchange.end_events();
}

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(const Engine& engine, const ServerFacts& facts,
                                                   bool stream, ResponseEcho echo,
                                                   const AssistantOutputOptions& output,
                                                   const std::string& call_id) {
  return std::make_unique<ResponseWriter>(engine, facts, stream, std::move(echo), output, call_id);
}

}  // namespace forerun::server
