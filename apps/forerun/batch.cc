#include "batch.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "completion_json.h"
#include "forerun/completion_queue.h"
#include "forerun/control_text.h"
#include "interrupt.h"
#include "json/field_reader.h"
#include "json/sampling_reader.h"
#include "nearest.h"
#include "output.h"
#include "run_request.h"
#include "terminal.h"
#include "text_input.h"

namespace forerun::app {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Maximum requests that have been submitted and not printed: more would only take memory.
constexpr size_t kMaxInFlight = 256;

std::vector<std::string> accepted_fields() {
  std::vector<std::string> names = {"prompt", "messages", "id", "max_tokens", "seed", "stop"};
  for_each_sampling_field([&](const auto& field) { names.emplace_back(field.name); });
  return names;
}

void read_stop(FieldReader& fields, Request& request) {
  constexpr size_t kMax = 4096;
  auto stop = fields.string_or_strings("stop", kMax);
  if (!stop) return;
  if (std::count(stop->begin(), stop->end(), "") > 0) {
    fields.refuse("stop", "strings that are not empty");
  }
  request.stop = std::move(*stop);
}

Status check_names(const FieldReader& fields, const std::string& where) {
  static const std::vector<std::string> kFields = accepted_fields();
  for (const std::string& field : fields.keys()) {
    if (std::find(kFields.begin(), kFields.end(), field) != kFields.end()) continue;
    const std::string nearest = nearest_name(field, kFields);
    std::string all;
    for (const std::string& name : kFields) all += (all.empty() ? "" : ", ") + name;
    return Status(
        StatusCode::kInvalidArgument,
        where + ": there is no field " + in_quotes(field) +
            (nearest.empty() ? "; accepted: " + all : "; did you mean \"" + nearest + "\"?"));
  }
  return Status();
}

Result<BatchRequest> read_line(const json& line, const std::string& where, const Request& defaults,
                               size_t index) {
  FieldReader fields(JsonValue(&line, where));
  FORERUN_RETURN_IF_ERROR(check_names(fields, where));
  BatchRequest batch{defaults, "", ""};
  Request& request = batch.request;
  const std::optional<std::string> prompt = fields.string("prompt");
  const json* const messages = fields.any_list("messages");
  if (fields.ok() && prompt.has_value() == (messages != nullptr)) {
    return Status(StatusCode::kInvalidArgument,
                  where + ": found " + (prompt ? "both" : "neither") +
                      " of \"prompt\" and \"messages\"; accepted: one of them");
  }
  if (messages != nullptr) {
    batch.messages_json = messages->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  request.prompt = prompt.value_or("");
  batch.id = fields.string("id").value_or("");
  request.max_new_tokens = static_cast<int32_t>(
      fields.integer("max_tokens", 1, INT32_MAX).value_or(request.max_new_tokens));
  SamplingOptions& sampling = request.sampling;
  read_sampling_fields(fields, sampling);
  sampling.seed =
      fields.unsigned_integer("seed", 0, UINT64_MAX).value_or(sampling.seed.value_or(0) + index);
  read_stop(fields, request);
  if (!fields.ok()) return fields.status();
  return batch;
}

class BatchRun {
 public:
  BatchRun(Engine& engine, std::vector<BatchRequest> batch)
      : engine_(engine), control_(engine), batch_(std::move(batch)), results_(batch_.size()) {}

  Status run() {
    FORERUN_ASSIGN_OR_RETURN(queue_, CompletionQueue::create());
    const auto begin = std::chrono::steady_clock::now();
    while (printed_ < results_.size()) {
      const bool stops = InterruptGuard::interrupted() || !std::cout;
      if (stops) {
        for (const Running& each : results_) {
          if (each.handle) each.handle->cancel();
        }
        if (queue_->outstanding() == 0) break;
      }
      while (!stops && submitted_ < results_.size() && submitted_ < printed_ + kMaxInFlight) {
        submit(submitted_++);
      }
      print_finished();
      if (auto completion = queue_->next_for(std::chrono::milliseconds(50))) take(*completion);
    }
    print_finished();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::cerr << paint(stderr, Colour::kDim,
                       "— " + std::to_string(printed_) +
                           (printed_ == 1 ? " request, " : " requests, ") +
                           std::to_string(tokens_) + " tokens, " +
                           format_fixed(static_cast<double>(tokens_) / seconds.count(), 1) +
                           " tokens/s")
              << std::endl;
    if (failed_ == 0) return InterruptGuard::status();
    return Status(StatusCode::kInvalidArgument, std::to_string(failed_) + " of " +
                                                    std::to_string(printed_) +
                                                    " requests failed; their lines say why");
  }

 private:
  struct Running {
    std::shared_ptr<RequestHandle> handle;
    Completion completion;
    Status error;
    bool finished = false;
  };

  void submit(size_t index) {
    Running& running = results_[index];
    BatchRequest& wanted = batch_[index];
    if (!wanted.messages_json.empty()) {
      ChatPrompt prompt;
      prompt.messages_json = std::move(wanted.messages_json);
      const Status rendered = control_.render(engine_, std::move(prompt), wanted.request);
      if (!rendered.ok()) return fail(running, rendered);
    }
    auto handle = engine_.submit(std::move(wanted.request), *queue_, index);
    if (!handle.ok()) return fail(running, handle.status());
    running.handle = std::move(*handle);
  }

  void fail(Running& running, Status status) {
    running.error = std::move(status);
    running.finished = true;
  }

  void take(forerun::Completion& next) {
    Running& running = results_[next.tag];
    Event& event = next.event;
    running.completion.text += event.text;
    running.completion.tokens.insert(running.completion.tokens.end(), event.tokens.begin(),
                                     event.tokens.end());
    running.completion.logprobs.insert(running.completion.logprobs.end(), event.logprobs.begin(),
                                       event.logprobs.end());
    running.completion.prompt_logprobs.insert(running.completion.prompt_logprobs.end(),
                                              event.prompt_logprobs.begin(),
                                              event.prompt_logprobs.end());
    if (!event.last) return;
    running.completion.reason = event.reason;
    running.completion.stats = std::move(event.stats);
    if (event.reason == FinishReason::kError) running.error = event.error;
    running.finished = true;
  }

  void print_finished() {
    for (; printed_ < submitted_ && results_[printed_].finished; ++printed_) {
      Running& running = results_[printed_];
      ordered_json line = {{"index", printed_}};
      if (!batch_[printed_].id.empty()) line["id"] = batch_[printed_].id;
      if (running.error.ok()) {
        line.update(completion_json(engine_, running.completion));
        tokens_ += static_cast<int64_t>(running.completion.tokens.size());
      } else {
        line["error"] = running.error.message();
        ++failed_;
      }
      std::cout << json_line(line) << std::flush;
      running = Running();
    }
  }

  Engine& engine_;
  const ControlText control_;
  std::vector<BatchRequest> batch_;
  std::vector<Running> results_;
  std::unique_ptr<CompletionQueue> queue_;
  size_t submitted_ = 0;
  size_t printed_ = 0;
  int64_t tokens_ = 0;
  int64_t failed_ = 0;
};

}  // namespace

Result<std::vector<BatchRequest>> read_batch(const std::string& path, const Request& defaults) {
  FORERUN_ASSIGN_OR_RETURN(const std::string text, read_text("--batch", path));
  std::vector<BatchRequest> batch;
  std::istringstream in(text);
  int64_t line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = "--batch: " + path + ":" + std::to_string(line_number);
    // Deeper JSON is not a conversation, and writing it would recurse as deep.
    constexpr int kDeepest = 64;
    bool too_deep = false;
    const auto watch_depth = [&too_deep](int depth, json::parse_event_t, const json&) {
      too_deep = too_deep || depth > kDeepest;
      return !too_deep;
    };
    const json parsed = json::parse(line, watch_depth, /*allow_exceptions=*/false);
    if (!parsed.is_object() || too_deep) {
      return Status(StatusCode::kInvalidArgument,
                    where +
                        ": found no JSON object; accepted: a line such as {\"prompt\": "
                        "\"Once upon\"}");
    }
    FORERUN_ASSIGN_OR_RETURN(BatchRequest request,
                             read_line(parsed, where, defaults, batch.size()));
    batch.push_back(std::move(request));
  }
  if (batch.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        "--batch: " + path + " holds no request; accepted: a line of JSON for each request");
  }
  return batch;
}

Status run_batch(Engine& engine, std::vector<BatchRequest> batch) {
  return BatchRun(engine, std::move(batch)).run();
}

}  // namespace forerun::app
