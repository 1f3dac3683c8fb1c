#include "server/api/token_json.h"

#include <algorithm>
#include <utility>

#include "server/json.h"
#include "text/utf8.h"

namespace forerun::server {
namespace {

std::string bytes_of(const Engine& engine, int32_t token) {
  const Result<std::string> bytes = engine.token_bytes(token);
  return bytes.ok() ? *bytes : std::string();
}

Json chat_logprob(const Engine& engine, const TokenLogprob& entry) {
  const std::string bytes = bytes_of(engine, entry.token);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  return {{"token", text::replace_ill_formed(bytes)},
          {"logprob", entry.logprob},
          {"bytes", std::move(list)}};
}

}  // namespace

std::string token_text(const Engine& engine, int32_t token) {
  return text::replace_ill_formed(bytes_of(engine, token));
}

Json chat_logprobs(const Engine& engine, const Event& event) {
  Json list = Json::array();
  for (const std::vector<TokenLogprob>& token : event.logprobs) {
    Json entry = chat_logprob(engine, token.front());
    Json top = Json::array();
    for (size_t idx = 1; idx < token.size(); ++idx) top.push_back(chat_logprob(engine, token[idx]));
    entry["top_logprobs"] = std::move(top);
    list.push_back(std::move(entry));
  }
  return list;
}

// The chosen one first; of the others at most `count`. Of several with one text the likeliest.
Json alternatives_by_text(const Engine& engine, const std::vector<TokenLogprob>& token,
                          size_t count) {
  Json top = Json::object();
  for (size_t idx = 0; idx < std::min(token.size(), count + 1); ++idx) {
    top.emplace(token_text(engine, token[idx].token), token[idx].logprob);
  }
  return top;
}

Json no_completion_logprobs() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

void append_completion_logprobs(const Engine& engine, const Event& event, Json& logprobs,
                                int64_t& offset) {
  for (const std::vector<TokenLogprob>& token : event.logprobs) {
    const std::string chosen = token_text(engine, token.front().token);
    logprobs["tokens"].push_back(chosen);
    logprobs["token_logprobs"].push_back(token.front().logprob);
    logprobs["top_logprobs"].push_back(alternatives_by_text(engine, token, token.size()));
    logprobs["text_offset"].push_back(offset);
    offset += static_cast<int64_t>(text::count_code_points(chosen));
  }
}

void append_prompt_logprobs(const Engine& engine, const Event& event, const EchoedPrompt& prompt,
                            Json& logprobs) {
  int64_t offset = 0;
  std::string_view rest = prompt.text;
  const auto append = [&](int32_t token, Json logprob, Json top) {
    const std::string text = token_text(engine, token);
    logprobs["tokens"].push_back(text);
    logprobs["token_logprobs"].push_back(std::move(logprob));
    logprobs["top_logprobs"].push_back(std::move(top));
    logprobs["text_offset"].push_back(offset);
    if (prompt.without_text->count(text) > 0 && !rest.starts_with(text)) return;
    const size_t points = text::count_code_points(text);
    offset += static_cast<int64_t>(points);
    for (size_t point = 0; point < points && !rest.empty(); ++point) {
      do {
        rest.remove_prefix(1);
      } while (!rest.empty() && (static_cast<unsigned char>(rest.front()) & 0xc0) == 0x80);
    }
  };
  append(prompt.first_token, nullptr, nullptr);
  for (const std::vector<TokenLogprob>& token : event.prompt_logprobs) {
    append(token.front().token, token.front().logprob,
           alternatives_by_text(engine, token, static_cast<size_t>(prompt.count)));
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
