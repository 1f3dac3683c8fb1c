#include "server/api/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "forerun/speculation_fields.h"
#include "json/sampling_reader.h"
#include "server/api/format_fields.h"
#include "server/http/api_keys.h"
#include "server/json.h"
#include "server/output/json_limits.h"

namespace forerun::server {
namespace {

constexpr int64_t kLongestDeadline_ms = 86'400'000;  // a day

// Reads "logit_bias", such as {"50256": -100}.
void read_biases(OrderedFieldReader& fields, const ServerFacts& facts, SamplingOptions& sampling) {
  const Json* const biases = fields.any_object("logit_bias");
  if (biases == nullptr) return;
  const std::string accepted = "an object of up to " + std::to_string(facts.options.max_biases) +
                               " token ids below " + std::to_string(facts.info.vocab_size) +
                               ", each with a number from -100 to 100";
  if (biases->size() > facts.options.max_biases) return fields.refuse("logit_bias", accepted);
  for (const auto& [key, bias] : biases->items()) {
    int32_t token = 0;
    const char* const end = key.data() + key.size();
    const auto [stopped, error] = std::from_chars(key.data(), end, token);
    const bool good = error == std::errc() && stopped == end && token >= 0 &&
                      token < facts.info.vocab_size && bias.is_number() &&
                      std::abs(bias.get<double>()) <= double{kMaxLogitBias};
    if (!good) {
      return fields.refuse(
          "logit_bias", accepted, StatusCode::kInvalidArgument,
          "\"" + printable(key.substr(0, 40)) + "\": " + bias.dump().substr(0, 40));
    }
    sampling.logit_bias.emplace_back(token, bias.get<float>());
  }
}

void read_sampling(OrderedFieldReader& fields, const ServerFacts& facts,
                   SamplingOptions& sampling) {
  read_sampling_fields(fields, sampling);
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  read_biases(fields, facts, sampling);
}

void read_speculation_field(OrderedFieldReader& fields, const SpeculationField& field,
                            SpeculationOptions& options) {
  if (field.text != nullptr) {
    options.*field.text = fields.string(field.name).value_or(options.*field.text);
  } else if (field.flag != nullptr) {
    options.*field.flag = fields.boolean(field.name);
  } else if (const auto number = fields.integer(field.name, field.range.low, field.range.high)) {
    options.*field.number = static_cast<int32_t>(*number);
  }
}

// Reads the fields of SpeculationOptions by their own names; "strategy" may also be given outside
// of the object.
void read_speculation(OrderedFieldReader& fields, Request& request, ParamNames& names) {
  SpeculationOptions options;
  bool given = false;
  if (auto inner = fields.object("speculation")) {
    std::vector<std::string_view> accepted;
    for (const SpeculationField& field : kSpeculationFields) {
      accepted.emplace_back(field.name);
      if (!inner->has(field.name)) continue;
      names.emplace_back(field.name, std::string("speculation.") + field.name);
      read_speculation_field(*inner, field, options);
    }
    inner->accept_only(accepted);
    given = true;
  }
  if (const auto strategy = fields.string("strategy")) {
    options.strategy = *strategy;
    std::erase_if(names, [](const auto& name) { return name.first == "strategy"; });
    given = true;
  }
  if (given) request.speculation = options;
}

std::vector<int32_t> read_stop_tokens(OrderedFieldReader& fields, const ServerFacts& facts) {
  constexpr const char* kName = "stop_token_ids";
  const auto tokens = read_tokens(fields, kName, 64);
  if (!tokens) return {};
  for (size_t idx = 0; idx < tokens->size(); ++idx) {
    if ((*tokens)[idx] < facts.info.vocab_size) continue;
    fields.refuse(std::string(kName) + "[" + std::to_string(idx) + "]",
                  "an id below " + std::to_string(facts.info.vocab_size),
                  StatusCode::kInvalidArgument, std::to_string((*tokens)[idx]));
  }
  return *tokens;
}

// Parses a body as a JSON object.
std::optional<ApiError> parse_object(const std::string& body, Json* object) {
  if (const char* const excess = excess_of_json(body)) {
    return api_error(400, std::string("body: found too much JSON: ") + excess +
                              "; accepted: up to " + std::to_string(kMaxJsonDepth) + " levels, " +
                              std::to_string(kMaxJsonMembers) + " members an object");
  }
  try {
    *object = Json::parse(body);
  } catch (const Json::exception& error) {
    std::string why = error.what();
    const size_t end = why.find("] ");  // end of the library's own number
    if (end != std::string::npos) why = why.substr(end + 2);
    return api_error(400, "body: not JSON: " + why);
  }
  if (object->is_object()) return std::nullopt;
  return api_error(400, OrderedJsonValue(object, "body").refuse("a JSON object").message());
}

}  // namespace

std::optional<std::vector<int32_t>> read_tokens(OrderedFieldReader& fields, const char* name,
                                                size_t max_tokens) {
  const Json* const list = fields.any_list(name);
  if (list != nullptr && list->size() > max_tokens) {
    fields.refuse(name, "a list of up to " + std::to_string(max_tokens) + " token ids");
  }
  const auto tokens = fields.integers(name, 0, INT32_MAX);
  if (!tokens) return std::nullopt;
  return std::vector<int32_t>(tokens->begin(), tokens->end());
}

void refuse_given(OrderedFieldReader& fields, std::initializer_list<FieldNotDone> names) {
  for (const auto& [name, accepted] : names) {
    const Json* const given = fields.any(name);
    const bool says_something =
        given != nullptr && *given != Json(false) && *given != Json::array();
    if (says_something) fields.refuse(name, accepted);
  }
}

void read_generation(OrderedFieldReader& fields, const ServerFacts& facts, Request& request,
                     ParamNames& names) {
  names.emplace_back("num_samples", "n");

  refuse_given(fields, {{"bad_words", "null; \"logit_bias\" makes tokens unlikely"},
                        {"allowed_token_ids", "null; \"grammar\" says what may be written"},
                        {"truncate_prompt_tokens", "null; prompts are read whole"},
                        {"use_beam_search", "false; answers are sampled"},
                        {"logits_processors", "null"}});
  read_sampling(fields, facts, request.sampling);
  read_speculation(fields, request, names);
  if (auto stop = fields.string_or_strings("stop", facts.options.max_stop_strings)) {
    const auto empty = std::find(stop->begin(), stop->end(), "");
    if (empty != stop->end()) {
      fields.refuse("stop[" + std::to_string(empty - stop->begin()) + "]",
                    "a text of at least one character", StatusCode::kInvalidArgument, "\"\"");
    }
    request.stop = std::move(*stop);
  }
  request.keep_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  request.stop_tokens = read_stop_tokens(fields, facts);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.deadline =
      std::chrono::milliseconds(fields.integer("deadline_ms", 1, kLongestDeadline_ms).value_or(0));
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.num_samples =
      static_cast<int32_t>(fields.integer("n", 1, facts.options.max_choices).value_or(1));
  request.priority =
      -static_cast<int32_t>(fields.integer("priority", -kMaxPriority, kMaxPriority).value_or(0));
  request.min_new_tokens =
      static_cast<int32_t>(fields.integer("min_tokens", 0, INT32_MAX).value_or(0));
  if (auto salt = fields.string("cache_salt")) {
    const size_t max_bytes = facts.options.max_salt_bytes;
    if (salt->empty() || salt->size() > max_bytes) {
      fields.refuse("cache_salt", "a text of 1 to " + std::to_string(max_bytes) + " bytes");
    }
    request.cache_salt = std::move(*salt);
  }
  read_guides(fields, {request.output_format, names});
}

std::optional<int32_t> read_prompt_logprobs(OrderedFieldReader& fields, const ServerFacts& facts,
                                            bool stream) {
  const auto count = fields.integer("prompt_logprobs", 0, facts.options.max_logprobs);
  if (!count) return std::nullopt;
  if (stream && *count > 0) {
    fields.refuse("prompt_logprobs", "null or 0 beside \"stream\", as in vLLM");
  }
  return static_cast<int32_t>(*count);
}

std::optional<ApiError> tokenize_prompts(const Engine& engine, std::span<Request> prompts,
                                         const ParamNames& names) {
  for (Request& prompt : prompts) {
    if (!prompt.prompt_tokens.empty()) continue;
    auto tokens = engine.tokenize_prompt(prompt.prompt, prompt.add_special_tokens);
    if (!tokens.ok()) return api_error(tokens.status(), names);
    prompt.prompt_tokens = std::move(*tokens);
  }
  return std::nullopt;
}

std::optional<ApiError> limit_scores(const Engine& engine, const ServerFacts& facts,
                                     std::span<Request> prompts, const ParamNames& names) {
  int64_t scores = 0;
  for (Request& prompt : prompts) {
    if (prompt.sampling.prompt_logprobs < 0) continue;
    if (auto error = tokenize_prompts(engine, {&prompt, 1}, names)) return error;
    scores += static_cast<int64_t>(prompt.prompt_tokens.size()) * prompt.num_samples *
              (prompt.sampling.prompt_logprobs + 1);
  }
  if (scores <= facts.options.max_scores) return std::nullopt;
  const Status refused(
      StatusCode::kInvalidArgument,
      "prompt_logprobs: found " + std::to_string(scores) +
          " scores (n x tokens of the prompts x (1 + alternatives)); accepted: up to " +
          std::to_string(facts.options.max_scores));
  return api_error(refused, names);
}

void read_stream(OrderedFieldReader& fields, StreamFields& stream) {
  stream.stream = fields.boolean("stream").value_or(false);
  stream.speculation = fields.boolean("return_speculation").value_or(false);
  stream.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  stream.token_ids = fields.boolean("return_token_ids").value_or(false);
  auto options = fields.object("stream_options");
  if (!options) return;
  if (!stream.stream) return fields.refuse("stream_options", "nothing unless \"stream\" is true");
  stream.include_usage = options->boolean("include_usage").value_or(false);
  // continuous_usage_stats has an effect only together with include_usage, as in vLLM.
  stream.continuous_usage =
      options->boolean("continuous_usage_stats").value_or(false) && stream.include_usage;
}

std::optional<ApiError> refuse_model(const ServerFacts& facts, const std::string& name) {
  std::string accepted;
  for (const std::string& served : facts.options.model_names) {
    if (served == name) return std::nullopt;
    accepted += (accepted.empty() ? "'" : ", '") + served + "'";
  }
  ApiError error = api_error(404, "model: found '" + name + "'; accepted: " + accepted);
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

std::optional<ApiError> parse_call(const std::string& body, const ServerFacts& facts,
                                   Json* object) {
  if (auto error = parse_object(body, object)) return error;
  OrderedFieldReader fields{OrderedJsonValue(object)};
  const std::optional<std::string> model = fields.string("model");
  if (!fields.ok()) return api_error(fields.status());
  return model ? refuse_model(facts, *model) : std::nullopt;
}

}  // namespace forerun::server
