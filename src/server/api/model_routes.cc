#include "server/api/model_routes.h"

#include <algorithm>
#include <utility>

#include "forerun/sampling_fields.h"
#include "forerun/speculation_options.h"
#include "json/field_reader.h"
#include "server/api/chat_prompt_fields.h"
#include "server/api/generation_fields.h"
#include "server/api/token_json.h"
#include "server/json.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

constexpr size_t kMaxTokens = 4 << 20;

Json described(const ServerFacts& facts, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", facts.created},
          {"owned_by", "forerun"},
          {"max_model_len", facts.info.max_context_tokens}};
}

Json choices_json(const std::vector<OptionChoice>& choices) {
  Json list = Json::array();
  for (const OptionChoice& choice : choices) {
    list.push_back({{"name", choice.name}, {"help", choice.help}});
  }
  return list;
}

}  // namespace

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = json_line(json);
  return response;
}

HttpResponse response_of(const JsonOrError& answer) {
  if (const auto* error = std::get_if<ApiError>(&answer)) return error_response(*error);
  return json_response(std::get<Json>(answer));
}

Json models_json(const ServerFacts& facts) {
  Json list = Json::array();
  for (const std::string& name : facts.options.model_names) list.push_back(described(facts, name));
  return {{"object", "list"}, {"data", std::move(list)}};
}

JsonOrError model_json(const ServerFacts& facts, const std::string& name) {
  if (std::optional<ApiError> error = refuse_model(facts, name)) {
    error->param.clear();  // the name is in the path
    return std::move(*error);
  }
  return described(facts, name);
}

Json props_json(const Engine& engine, const ServerFacts& facts) {
  Json defaults = {{"n_ctx", facts.info.max_context_tokens}};
  for_each_sampling_field(
      [&](const auto& field) { defaults[field.name] = facts.info.default_sampling.*field.param; });
  return {{"model_alias", facts.model()},
          {"model_path", facts.info.model_name},
          {"total_slots", facts.options.num_slots},
          {"chat_template", engine.chat_template()},
          {"numeric_fingerprint", facts.info.numeric_fingerprint},
          {"build_info", std::string("forerun ") + FORERUN_VERSION},
          {"strategies", choices_json(strategy_choices())},
          {"tree_shapes", choices_json(tree_shape_choices())},
          {"default_generation_settings", std::move(defaults)}};
}

// Returns one slot for each request that may run at once, although the engine has no slots; the
// first ones are shown as taken.
Json slots_json(const Engine& engine, const ServerFacts& facts) {
  Json slots = Json::array();
  const int32_t running = engine.load().running_requests;
  for (int32_t idx = 0; idx < std::max(running, facts.options.num_slots); ++idx) {
    slots.push_back({{"id", idx},
                     {"n_ctx", facts.info.max_context_tokens},
                     {"speculative", true},
                     {"is_processing", idx < running}});
  }
  return slots;
}

JsonOrError tokenize_json(const Engine& engine, const ServerFacts& facts, const ChatFormat& format,
                          const std::string& body) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  OrderedFieldReader fields{OrderedJsonValue(&object)};
  Request request;
  if (const Json* const messages = fields.any_list("messages")) {
    Conversation conversation;
    conversation.messages = *messages;
    if (const Json* const tools = fields.any_list("tools")) conversation.tools = *tools;
    conversation.continue_final_message = fields.boolean("continue_final_message").value_or(false);
    conversation.add_generation_prompt =
        fields.boolean("add_generation_prompt").value_or(!conversation.continue_final_message);
    AssistantOutputOptions unused;
    ParamNames names;
    if (const auto error = make_chat_prompt(engine, format, conversation, names, request, unused)) {
      return *error;
    }
  } else {
    const auto prompt = fields.string("prompt");
    const auto content = fields.string("content");  // llama-server's name
    if (!prompt && !content) fields.refuse("prompt", "a string, or a list of \"messages\"");
    request.prompt = prompt ? *prompt : content.value_or("");
    // vLLM adds special tokens unless told not to, llama-server only if asked.
    request.add_special_tokens = prompt ? fields.boolean("add_special_tokens").value_or(true)
                                        : fields.boolean("add_special").value_or(false);
  }
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  const bool strings = fields.boolean("return_token_strs").value_or(false);
  if (!fields.ok()) return api_error(fields.status());
  const Result<std::vector<int32_t>> tokens =
      request.prompt_tokens.empty() ? engine.tokenize(request.prompt, request.add_special_tokens)
                                    : request.prompt_tokens;
  if (!tokens.ok()) return api_error(tokens.status());
  Json list = Json::array();
  for (const int32_t token : *tokens) {
    list.push_back(pieces ? Json{{"id", token}, {"piece", token_text(engine, token)}}
                          : Json(token));
  }
  Json token_strings;
  if (strings) {
    token_strings = Json::array();
    for (const int32_t token : *tokens) token_strings.push_back(token_text(engine, token));
  }
  return Json{{"tokens", std::move(list)},
              {"token_strs", std::move(token_strings)},
              {"count", tokens->size()},
              {"max_model_len", facts.info.max_context_tokens}};
}

JsonOrError detokenize_json(const Engine& engine, const ServerFacts& facts,
                            const std::string& body) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  OrderedFieldReader fields{OrderedJsonValue(&object)};
  const auto tokens = read_tokens(fields, "tokens", kMaxTokens);
  if (!tokens) fields.refuse("tokens", "a list of token ids");
  if (tokens) {
    const bool known = std::all_of(tokens->begin(), tokens->end(),
                                   [&](int32_t token) { return token < facts.info.vocab_size; });
    if (!known) {
      fields.refuse("tokens", "ids below " + std::to_string(facts.info.vocab_size));
    }
  }
  if (!fields.ok()) return api_error(fields.status());
  const std::string text = text::replace_ill_formed(engine.detokenize(*tokens));
  return Json{{"prompt", text}, {"content", text}};  // vLLM's name and llama-server's
}

}  // namespace forerun::server
