#include "server/api/control_text.h"

#include <algorithm>
#include <random>
#include <utility>

#include "server/json.h"

namespace forerun::server {
namespace {

// Letters alone: filters of templates leave them as they are.
std::string random_mark() {
  constexpr int kLetters = 32;
  std::random_device random;
  std::string mark;
  for (int idx = 0; idx < kLetters; ++idx) mark += static_cast<char>('a' + random() % 26);
  return mark;
}

}  // namespace

ControlText::ControlText(const Engine& engine)
    : names_(engine.control_tokens()), mark_(random_mark()) {}

bool ControlText::mark_text(std::string& text) const {
  bool found = false;
  for (const std::string& name : names_) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.insert(at + 1, mark_);
      at += 1 + mark_.size();
      found = true;
    }
  }
  return found;
}

bool ControlText::mark(Json& json) const {
  if (json.is_string()) return mark_text(json.get_ref<std::string&>());
  bool found = false;
  if (json.is_structured()) {
    for (Json& inner : json) found = mark(inner) || found;
  }
  return found;
}

Result<std::vector<int32_t>> ControlText::tokenize(const Engine& engine,
                                                   const std::string& rendered) const {
  std::vector<int32_t> tokens;
  for (size_t begin = 0; begin <= rendered.size();) {
    const size_t end = std::min(rendered.find(mark_, begin), rendered.size());
    Result<std::vector<int32_t>> piece =
        engine.tokenize(rendered.substr(begin, end - begin), /*add_special_tokens=*/false);
    if (!piece.ok()) return piece.status();
    tokens.insert(tokens.end(), piece->begin(), piece->end());
    begin = end == rendered.size() ? end + 1 : end + mark_.size();
  }
  return tokens;
}

}  // namespace forerun::server
