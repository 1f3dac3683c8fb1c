#include "server/api/token_json.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/json.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

std::string bytes_of(const Engine& engine, int32_t token) {
  const Result<std::string> bytes = engine.token_bytes(token);
  return bytes.ok() ? *bytes : std::string();
}

std::string token_id_name(int32_t token) { return "token_id:" + std::to_string(token); }

Json chat_logprob(const Engine& engine, const TokenLogprob& entry, bool as_ids) {
  const std::string bytes = bytes_of(engine, entry.token);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", as_ids ? token_id_name(entry.token) : text::replace_ill_formed(bytes)},
          {"logprob", entry.logprob},
          {"bytes", std::move(list)}};
}

std::string spelled(int32_t token, const std::string& bytes, const TokenSpelling& spelling) {
  if (spelling.as_ids) return token_id_name(token);
  if (text::is_well_formed(bytes)) return bytes;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += "\\x";
    text += kHex[value >> 4];
    text += kHex[value & 15];
  }
  return text;
}

// Returns the chosen token first, then at most `count` others. If several tokens have the same
// text, all but the first are named by their ids.
Json alternatives_by_text(const Engine& engine, const std::vector<TokenLogprob>& token,
                          size_t count, const TokenSpelling& spelling) {
  Json top = Json::object();
  for (size_t idx = 0; idx < std::min(token.size(), count + 1); ++idx) {
    const int32_t id = token[idx].token;
    if (idx > 0 && id == token.front().token) continue;
    std::string text = spelled(id, bytes_of(engine, id), spelling);
    if (top.contains(text)) text = token_id_name(id);
    top.emplace(std::move(text), token[idx].logprob);
  }
  return top;
}

}  // namespace

std::string token_text(const Engine& engine, int32_t token) {
  return text::replace_ill_formed(bytes_of(engine, token));
}

Json stop_reason_json(const Event& event) {
  if (!event.stop_text.empty()) return event.stop_text;
  return event.stop_token >= 0 ? Json(event.stop_token) : Json();
}

Json chat_logprob_json(const Engine& engine, const std::vector<TokenLogprob>& token, bool as_ids) {
  Json entry = chat_logprob(engine, token.front(), as_ids);
  Json top = Json::array();
  for (size_t idx = 1; idx < token.size(); ++idx) {
    top.push_back(chat_logprob(engine, token[idx], as_ids));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

Json chat_logprobs(const Engine& engine, const Event& event, bool as_ids) {
  Json list = Json::array();
  for (const std::vector<TokenLogprob>& token : event.logprobs) {
    list.push_back(chat_logprob_json(engine, token, as_ids));
  }
  return list;
}

void TextOffset::add(std::string_view bytes) {
  partial_ += bytes;
  while (!partial_.empty() && !text::is_incomplete_character(partial_)) {
    partial_.erase(0, text::first_code_point(partial_).len_bytes);
    ++characters_;
  }
}

Json no_completion_logprobs() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

void append_completion_logprobs(const Engine& engine, const Event& event,
                                const TokenSpelling& spelling, Json& logprobs, TextOffset& offset) {
  for (const std::vector<TokenLogprob>& token : event.logprobs) {
    const std::string bytes = bytes_of(engine, token.front().token);
    logprobs["tokens"].push_back(spelled(token.front().token, bytes, spelling));
    logprobs["token_logprobs"].push_back(token.front().logprob);
    logprobs["top_logprobs"].push_back(alternatives_by_text(engine, token, token.size(), spelling));
    logprobs["text_offset"].push_back(offset.characters());
    if (spelling.without_text->count(bytes) == 0) offset.add(bytes);
  }
}

void append_prompt_logprobs(const Engine& engine, const Event& event, const EchoedPrompt& prompt,
                            const TokenSpelling& spelling, Json& logprobs) {
  TextOffset offset;
  std::string_view rest = prompt.text;
  const auto append = [&](int32_t token, Json logprob, Json top) {
    const std::string bytes = bytes_of(engine, token);
    logprobs["tokens"].push_back(spelled(token, bytes, spelling));
    logprobs["token_logprobs"].push_back(std::move(logprob));
    logprobs["top_logprobs"].push_back(std::move(top));
    logprobs["text_offset"].push_back(offset.characters());
    if (spelling.without_text->count(bytes) > 0 && !rest.starts_with(bytes)) return;
    std::string_view shown = bytes;
    // Some tokenizers write a space before the first word.
    if (shown.starts_with(' ') && !rest.starts_with(' ')) shown.remove_prefix(1);
    offset.add(shown);
    rest.remove_prefix(std::min(rest.size(), shown.size()));
  };
  append(prompt.first_token, nullptr, nullptr);
  for (const std::vector<TokenLogprob>& token : event.prompt_logprobs) {
    append(token.front().token, token.front().logprob,
           alternatives_by_text(engine, token, static_cast<size_t>(prompt.count), spelling));
  }
}

Json prompt_logprobs_json(const Engine& engine, const Event& event, int32_t count) {
  Json list = Json::array({nullptr});
  for (const std::vector<TokenLogprob>& token : event.prompt_logprobs) {
    Json of_token = Json::object();
    const auto add = [&](const TokenLogprob& entry, Json rank) {
      of_token[std::to_string(entry.token)] = {{"logprob", entry.logprob},
                                               {"rank", std::move(rank)},
                                               {"decoded_token", token_text(engine, entry.token)}};
    };
    add(token.front(), nullptr);
    for (size_t rank = 1; rank < token.size(); ++rank) {
      const bool is_asked_for = rank <= static_cast<size_t>(count);
      if (is_asked_for || token[rank].token == token.front().token) add(token[rank], rank);
    }
    list.push_back(std::move(of_token));
  }
  return list;
}

Json speculation_json(const Engine& engine, const Event& event) {
  Json tokens = Json::array();
  for (size_t idx = 0; idx < event.tokens.size(); ++idx) {
    tokens.push_back({{"id", event.tokens[idx]},
                      {"text", token_text(engine, event.tokens[idx])},
                      {"drafted", idx < event.drafted.size() && event.drafted[idx]}});
  }
  Json rounds = Json::array();
  for (const SpeculationRound& round : event.rounds) {
    Json nodes = Json::array();
    for (const SpeculationRound::Node& node : round.nodes) {
      nodes.push_back({{"token", node.token},
                       {"text", token_text(engine, node.token)},
                       {"parent", node.parent},
                       {"logprob", node.logprob},
                       {"accepted", node.accepted},
                       {"source", guess_origin_name(node.origin)}});
    }
    rounds.push_back({{"nodes", std::move(nodes)},
                      {"bonus", round.bonus},
                      {"bonus_text", round.bonus < 0 ? "" : token_text(engine, round.bonus)}});
  }
  return {{"tokens", std::move(tokens)}, {"rounds", std::move(rounds)}};
}

}  // namespace forerun::server
