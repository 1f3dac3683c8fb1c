#include "forerun/control_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/status_macros.h"
#include "forerun/engine.h"

namespace forerun {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 200;  // more than templates accept; bounds the recursion below

// Only lower-case letters: no escaping or trimming filter changes them (upper and title would).
std::string random_mark() {
  constexpr int kLetters = 32;
  std::random_device random;
  std::string mark;
  for (int idx = 0; idx < kLetters; ++idx) mark += static_cast<char>('a' + random() % 26);
  return mark;
}

// Calls `change` for every string in `json` except names of members; returns whether any has
// changed.
template <class Change>
bool change_texts(Json& json, const Change& change) {
  if (json.is_string()) return change(json.get_ref<std::string&>());
  bool changed = false;
  if (json.is_structured()) {
    for (Json& inner : json) changed = change_texts(inner, change) || changed;
  }
  return changed;
}

}  // namespace

ControlText::ControlText(const Engine& engine)
    : names_(engine.control_tokens()), mark_(random_mark()) {}

bool ControlText::mark_text(std::string& text) const {
  bool found = false;
  for (const std::string& name : names_) {
    size_t at = text.find(name);
    if (at == std::string::npos) continue;
    found = true;
    std::string marked;  // a new string, since inserting in place takes quadratic time for
                         // megabytes of names
    size_t from = 0;
    for (; at != std::string::npos; at = text.find(name, at + 1)) {
      marked.append(text, from, at + 1 - from).append(mark_);
      from = at + 1;
    }
    text = std::move(marked.append(text, from));
  }
  return found;
}

bool ControlText::mark_json(std::string& text) const {
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  Json json = Json::parse(text, watch_depth, /*allow_exceptions=*/false);
  if (json.is_discarded() || too_deep) return false;
  if (!change_texts(json, [this](std::string& inner) { return mark_text(inner); })) return false;
  text = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  return true;
}

bool ControlText::mark(ChatPrompt& prompt) const {
  bool found = false;
  for (std::string ChatPrompt::*const json :
       {&ChatPrompt::messages_json, &ChatPrompt::tools_json, &ChatPrompt::documents_json,
        &ChatPrompt::variables_json}) {
    std::string& text = prompt.*json;
    if (!text.empty()) found = mark_json(text) || found;
  }
  return found;
}

Result<std::vector<int32_t>> ControlText::tokenize(const Engine& engine,
                                                   const std::string& rendered) const {
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= rendered.size();) {
    const size_t end = std::min(rendered.find(mark_, begin), rendered.size());
    FORERUN_ASSIGN_OR_RETURN(
        const std::vector<int32_t> piece,
        engine.tokenize(rendered.substr(begin, end - begin), /*add_special_tokens=*/false));
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    begin = end == rendered.size() ? end + 1 : end + mark_.size();
  }
  return tokens;
}

Status ControlText::render(const Engine& engine, ChatPrompt prompt, Request& request) const {
  const bool is_marked = mark(prompt);
  FORERUN_ASSIGN_OR_RETURN(request.prompt, engine.apply_chat_template(prompt));
  request.add_special_tokens = false;
  request.prompt_tokens.clear();
  if (!is_marked) return {};
  FORERUN_ASSIGN_OR_RETURN(request.prompt_tokens, tokenize(engine, request.prompt));
  return {};
}

}  // namespace forerun
