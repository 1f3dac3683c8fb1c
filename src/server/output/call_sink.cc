#include "server/output/call_sink.h"

#include <nlohmann/json.hpp>

namespace forerun::server {
CallableTools::CallableTools(const std::vector<OfferedTool>& tools) {
  for (const OfferedTool& tool : tools) {
    auto& types = types_[tool.name];
    const auto schema = nlohmann::json::parse(tool.parameters_json, nullptr, false);
    if (!schema.is_object()) continue;
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) continue;
    for (const auto& [argument, property] : properties->items()) {
      if (!property.is_object()) continue;
      const auto type = property.find("type");
      if (type != property.end() && type->is_string()) types[argument] = type->get<std::string>();
    }
  }
}

bool CallableTools::may_call(std::string_view name) const {
  if (name.empty() || name.size() > kMaxToolNameBytes) return false;
  return types_.empty() || types_.find(name) != types_.end();
}

std::string_view CallableTools::argument_type(std::string_view name,
                                              std::string_view argument) const {
  const auto tool = types_.find(name);
  if (tool == types_.end()) return {};
  const auto type = tool->second.find(argument);
  return type == tool->second.end() ? std::string_view() : std::string_view(type->second);
}

bool CallSink::may_call(std::string_view name) const {
  return tools_.may_call(name) && (parallel_ || num_calls_ == 0);
}

void CallSink::begin_call(std::string name, std::string id) {
  OutputDelta delta;
  delta.kind = OutputDelta::Kind::kToolCall;
  delta.call_idx = num_calls_++;
  delta.name = std::move(name);
  if (!id.empty()) {
    delta.call_id = std::move(id);
  } else {
    delta.call_id =
        make_call_id_ ? make_call_id_(delta.call_idx) : "call_" + std::to_string(delta.call_idx);
  }
  deltas_.push_back(std::move(delta));
  ++num_call_events_;
  arguments_scanner_ = {};
  arguments_are_whole_ = false;
}

void CallSink::arguments(std::string_view text) {
  add(OutputDelta::Kind::kToolArguments, num_calls_ - 1, text);
  for (size_t idx = 0; idx < text.size() && !arguments_are_whole_; ++idx) {
    // Forms emit only bytes that continue valid JSON, so push() cannot fail.
    arguments_are_whole_ = arguments_scanner_.push(text[idx]) == JsonScanner::Step::kEnd;
  }
}

void CallSink::add(OutputDelta::Kind kind, int32_t call_idx, std::string_view text) {
  if (text.empty()) return;
  if (kind == OutputDelta::Kind::kToolArguments) ++num_call_events_;
  if (deltas_.empty() || deltas_.back().kind != kind || deltas_.back().call_idx != call_idx) {
    OutputDelta delta;
    delta.kind = kind;
    delta.call_idx = call_idx;
    deltas_.push_back(std::move(delta));
  }
  deltas_.back().text += text;
}

}  // namespace forerun::server
