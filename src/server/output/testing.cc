#include "server/output/testing.h"

namespace forerun::server {

void add_deltas(const std::vector<OutputDelta>& deltas, ParsedMessage& message) {
  using Kind = OutputDelta::Kind;
  const OutputDelta* last = nullptr;
  for (const OutputDelta& delta : deltas) {
    if (delta.kind == Kind::kToolCall) {
      message.calls.push_back({delta.call_id, delta.name, ""});
    } else if (delta.text.empty()) {
      message.content += "\nbroken: empty delta";
    } else if (last != nullptr && last->kind == delta.kind && last->call_idx == delta.call_idx) {
      message.content += "\nbroken: neighbours of one kind";
    }
    last = &delta;
    if (delta.kind == Kind::kContent) message.content += delta.text;
    if (delta.kind == Kind::kReasoning) message.reasoning += delta.text;
    if (delta.kind != Kind::kToolCall && delta.kind != Kind::kToolArguments) continue;
    if (delta.call_idx + 1 != static_cast<int32_t>(message.calls.size())) {
      message.content += "\nbroken: index of a call";
    } else if (delta.kind == Kind::kToolArguments) {
      message.calls.back().arguments += delta.text;
    }
  }
}

ParsedMessage parse_in_pieces(const AssistantOutputOptions& options, std::string_view text,
                              size_t first_bytes, size_t piece_bytes, bool is_cut) {
  AssistantOutput output(options);
  ParsedMessage message;
  add_deltas(output.push(text.substr(0, first_bytes)), message);
  for (size_t at = first_bytes; at < text.size(); at += piece_bytes) {
    add_deltas(output.push(text.substr(at, piece_bytes)), message);
  }
  add_deltas(output.finish(is_cut), message);
  if (output.num_tool_calls() != static_cast<int32_t>(message.calls.size())) {
    message.content += "\nbroken: number of calls";
  }
  return message;
}

}  // namespace forerun::server
