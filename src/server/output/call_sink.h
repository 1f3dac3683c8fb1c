// Collects the output of the readers of a model's text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/output/json_scanner.h"
#include "server/output/output_delta.h"
#include "server/output/tool_use.h"

namespace forerun::server {

// OpenAI's names have at most 64 characters; some protocols add a prefix.
constexpr size_t kMaxToolNameBytes = 256;

// The tools that may be called, and the types of their arguments.
class CallableTools {
 public:
  explicit CallableTools(const std::vector<OfferedTool>& tools);

  bool may_call(std::string_view name) const;
  // Returns "string", "integer", ... if the schema names a single type; empty otherwise.
  std::string_view argument_type(std::string_view name, std::string_view argument) const;

 private:
  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> types_;
};

// Collects deltas and joins neighbours of one kind.
class CallSink {
 public:
  CallSink(const std::vector<OfferedTool>& tools, bool parallel,
           std::function<std::string(int32_t)> make_call_id)
      : tools_(tools), parallel_(parallel), make_call_id_(std::move(make_call_id)) {}

  void content(std::string_view text) { add(OutputDelta::Kind::kContent, -1, text); }
  void reasoning(std::string_view text) { add(OutputDelta::Kind::kReasoning, -1, text); }
  // Begins a call. An empty id is replaced by a new one.
  void begin_call(std::string name, std::string id);
  void arguments(std::string_view text);

  // Returns whether a call of this name may begin now.
  bool may_call(std::string_view name) const;
  const CallableTools& tools() const { return tools_; }
  bool parallel() const { return parallel_; }
  int32_t num_calls() const { return num_calls_; }
  // Returns whether the arguments of the last call are complete; true if there is no call.
  bool last_call_is_whole() const { return num_calls_ == 0 || arguments_are_whole_; }
  // Called if the last call's arguments have stopped being valid JSON: the call stays as it is, and
  // later bytes are text.
  void leave_call() { arguments_are_whole_ = true; }
  // Returns the number of calls and pieces of arguments so far, so that callers can detect a new
  // one.
  uint64_t num_call_events() const { return num_call_events_; }

  std::vector<OutputDelta> take() { return std::exchange(deltas_, {}); }

 private:
  void add(OutputDelta::Kind kind, int32_t call_idx, std::string_view text);

  CallableTools tools_;
  bool parallel_;
  std::function<std::string(int32_t)> make_call_id_;
  int32_t num_calls_ = 0;
  JsonScanner arguments_scanner_;  // scanner of the last call's arguments
  bool arguments_are_whole_ = false;
  uint64_t num_call_events_ = 0;
  std::vector<OutputDelta> deltas_;
};

}  // namespace forerun::server
