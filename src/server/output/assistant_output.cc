#include "server/output/assistant_output.h"

#include <utility>

#include "server/output/call_scanner.h"
#include "server/output/call_sink.h"
#include "server/output/end_names.h"
#include "server/output/reasoning_splitter.h"

namespace forerun::server {

struct AssistantOutput::State {
  explicit State(AssistantOutputOptions options)
      : end_names(std::move(options.end_token_names)),
        splitter(options.reasoning_format, options.begins_in_reasoning),
        scanner(options.tool_format),
        sink(options.tools, options.parallel_tool_calls, std::move(options.make_call_id)) {}

  void take(std::string_view text) {
    std::string reasoning, content;
    splitter.push(text, reasoning, content);
    sink.reasoning(reasoning);
    scanner.push(content, sink);
  }

  EndNames end_names;
  ReasoningSplitter splitter;
  CallScanner scanner;
  CallSink sink;
};

AssistantOutput::AssistantOutput(AssistantOutputOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
AssistantOutput::~AssistantOutput() = default;
AssistantOutput::AssistantOutput(AssistantOutput&&) noexcept = default;
AssistantOutput& AssistantOutput::operator=(AssistantOutput&&) noexcept = default;

std::vector<OutputDelta> AssistantOutput::push(std::string_view text) {
  std::string certain;
  state_->end_names.push(text, certain);
  state_->take(certain);
  return state_->sink.take();
}

std::vector<OutputDelta> AssistantOutput::finish(bool is_cut) {
  std::string certain;
  state_->end_names.finish(certain);
  state_->take(certain);
  std::string content;
  state_->splitter.finish(content, is_cut);
  state_->scanner.push(content, state_->sink);
  state_->scanner.finish(state_->sink, is_cut);
  return state_->sink.take();
}

int32_t AssistantOutput::num_tool_calls() const { return state_->sink.num_calls(); }

bool AssistantOutput::ends_within_call() const { return state_->scanner.ends_within_call(); }

bool AssistantOutput::is_over() const { return state_->scanner.is_over(); }

}  // namespace forerun::server
