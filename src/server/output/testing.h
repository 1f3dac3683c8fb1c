// Helpers for this folder's tests: join deltas into whole messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/output/assistant_output.h"

namespace forerun::server {

struct ParsedCall {
  std::string id, name, arguments;
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedMessage {
  std::string reasoning, content;
  std::vector<ParsedCall> calls;
  bool operator==(const ParsedMessage&) const = default;
};

// Joins deltas as a client does. Adds a line to `content` if they break a guarantee: an empty
// delta, a piece of arguments for a call other than the last, neighbours of one kind.
void add_deltas(const std::vector<OutputDelta>& deltas, ParsedMessage& message);

// Parses the text in pieces of `piece_bytes` bytes, the first one of `first_bytes`. `is_cut`:
// something other than the model ended the text.
ParsedMessage parse_in_pieces(const AssistantOutputOptions& options, std::string_view text,
                              size_t first_bytes, size_t piece_bytes, bool is_cut = false);

inline ParsedMessage parse_whole(const AssistantOutputOptions& options, std::string_view text) {
  return parse_in_pieces(options, text, text.size(), 1);
}

}  // namespace forerun::server
