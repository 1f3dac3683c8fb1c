#include "server/api/content_tokens.h"

#include <algorithm>
#include <utility>

#include "server/api/answer_writer.h"

namespace forerun::server {
namespace {

std::set<std::string> names_of(const std::vector<std::string>& names,
                               const AssistantOutputOptions& output) {
  // If the options name end tokens, the text shows special tokens.
  if (!output.end_token_names.empty()) return {};
  return {names.begin(), names.end()};
}

}  // namespace

ContentTokens::ContentTokens(const Engine& engine, const AssistantOutputOptions& output)
    : engine_(engine),
      control_tokens_(names_of(engine.control_tokens(), output)),
      output_(output) {}

void ContentTokens::read(const std::vector<OutputDelta>& deltas,
                         std::vector<std::vector<TokenLogprob>>& text_tokens) {
  if (deltas.empty()) return;
  size_t text_bytes = 0;
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == OutputDelta::Kind::kContent) text_bytes += delta.text.size();
  }
  size_t first = held_.size();
  while (first > 0 && text_bytes > 0) {
    --first;
    text_bytes -= std::min(text_bytes, held_[first].size_bytes);
  }
  for (; first < held_.size(); ++first) text_tokens.push_back(std::move(held_[first].logprobs));
  held_.clear();
}

std::vector<std::vector<TokenLogprob>> ContentTokens::take(const Event& event) {
  std::vector<std::vector<TokenLogprob>> text_tokens;
  for (const std::vector<TokenLogprob>& token : event.logprobs) {
    const Result<std::string> name = engine_.token_bytes(token.front().token);
    const std::string bytes = name.ok() && control_tokens_.count(*name) == 0 ? *name : "";
    if (!bytes.empty()) held_.push_back({bytes.size(), token});
    read(output_.push(bytes), text_tokens);
  }
  if (event.finished) read(output_.finish(was_cut(event)), text_tokens);
  return text_tokens;
}

}  // namespace forerun::server
