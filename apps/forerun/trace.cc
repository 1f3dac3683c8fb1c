#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "commands.h"
#include "exec/trace/chrome_trace.h"
#include "exec/trace/timeline_svg.h"
#include "exec/trace/trace_view.h"
#include "flags.h"
#include "forerun/completion_queue.h"
#include "interrupt.h"
#include "launch.h"
#include "output.h"
#include "run_request.h"
#include "terminal.h"

namespace forerun::app {
namespace {

// A timeline of more requests would be unreadable, and it is kept in memory until the last one has
// ended.
constexpr int kMaxRequests = 4096;

struct TraceFlags {
  EngineOptions engine;
  SamplingFlags sampling;
  std::string prompt;
  int32_t max_tokens = 64;
  int requests = 1;
  std::string json_path, svg_path;
  double from_ms = 0.0;
  double length_ms = 0.0;
};

// Runs all requests concurrently, with ascending seeds, and returns the statistics of the first.
// Ctrl-C ends them all.
Result<RequestStats> run_requests(Engine& engine, const Request& request, int count) {
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<CompletionQueue> queue, CompletionQueue::create());
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (int index = 0; index < count && !InterruptGuard::interrupted(); ++index) {
    Request each = request;
    if (each.sampling.seed) *each.sampling.seed += static_cast<uint64_t>(index);
    FORERUN_ASSIGN_OR_RETURN(std::shared_ptr<RequestHandle> handle,
                             engine.submit(std::move(each), *queue, static_cast<uint64_t>(index)));
    handles.push_back(std::move(handle));
  }
  RequestStats first;
  bool cancelled = false;
  for (size_t running = handles.size(); running > 0;) {
    auto completion = queue->next_for(std::chrono::milliseconds(50));
    if (InterruptGuard::interrupted() && !cancelled) {
      for (const auto& handle : handles) handle->cancel();
      cancelled = true;
    }
    if (!completion || !completion->event.last) continue;
    if (completion->event.reason == FinishReason::kError) return completion->event.error;
    if (completion->tag == 0) first = std::move(completion->event.stats);
    --running;
  }
  return first;
}

Status run_trace(const TraceFlags& flags) {
  if (flags.requests < 1 || flags.requests > kMaxRequests) {
    return Status(StatusCode::kInvalidArgument,
                  "--requests: found " + std::to_string(flags.requests) + "; accepted: 1 to " +
                      std::to_string(kMaxRequests));
  }
  if (flags.svg_path.empty() && (flags.from_ms > 0.0 || flags.length_ms > 0.0)) {
    return Status(StatusCode::kInvalidArgument,
                  std::string(flags.from_ms > 0.0 ? "--from-ms" : "--length-ms") +
                      ": found without --svg; accepted: with --svg, whose drawing it cuts");
  }
  EngineOptions options = flags.engine;
  options.trace = true;
  FORERUN_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, create_engine(std::move(options)));
  Request request;
  request.prompt = flags.prompt;
  FORERUN_ASSIGN_OR_RETURN(request.sampling, sampling_options(flags.sampling));
  request.max_new_tokens = flags.max_tokens;
  request.ignore_eos = true;
  InterruptGuard guard;
  FORERUN_ASSIGN_OR_RETURN(const RequestStats stats,
                           run_requests(*engine, request, flags.requests));
  const Trace trace = engine->take_trace();
  TimelineOptions timeline;
  // Only its name; the machine and its source are printed.
  const std::string emulated = engine->info().emulated.substr(0, engine->info().emulated.find(':'));
  timeline.title = engine->info().model_name + (emulated.empty() ? "" : " as " + emulated) + ": " +
                   stats.strategy + ", " + format_fixed(stats.tokens_per_s(), 1) + " tokens/s, " +
                   format_fixed(stats.tokens_per_step(), 2) + " tokens a target step";
  timeline.from_ms = flags.from_ms;
  timeline.length_ms = flags.length_ms;
  if (!flags.json_path.empty()) {
    FORERUN_RETURN_IF_ERROR(write_output("--json", flags.json_path, chrome_trace(trace)));
  }
  if (!flags.svg_path.empty()) {
    FORERUN_RETURN_IF_ERROR(write_output("--svg", flags.svg_path, timeline_svg(trace, timeline)));
  }
  std::ostream& report = flags.json_path == "-" || flags.svg_path == "-" ? std::cerr : std::cout;
  report << describe(stats) << "\n"
         << summarize(trace) << describe_emulation(*engine) << std::flush;
  return InterruptGuard::status();
}

}  // namespace

Command add_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("trace", "Run a prompt and write a timeline of target, draft and host");
  auto flags = std::make_shared<TraceFlags>();
  add_engine_flags(*command, flags->engine);
  add_sampling_flags(*command, flags->sampling);
  command->add_option("-p,--prompt", flags->prompt, "The text to continue")->required();
  command->add_option("-n,--max-tokens", flags->max_tokens, "Tokens to write")
      ->capture_default_str();
  command
      ->add_option("--requests", flags->requests,
                   "Number of requests at once, with ascending seeds")
      ->capture_default_str();
  command->add_option(
      "--json", flags->json_path,
      "Write the trace for chrome://tracing or Perfetto to this file; - is standard output");
  command->add_option("--svg", flags->svg_path,
                      "Draw the timeline into this file; - is standard output");
  command->add_option("--from-ms", flags->from_ms, "Start of the drawing")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--length-ms", flags->length_ms, "Length of the drawing (default: to the end)")
      ->check(CLI::NonNegativeNumber);
  command->footer(
      "Example:\n  forerun trace --model models/demo-target --draft models/demo-draft \\\n"
      "    --emulate bench/profiles/swiftspec.json#qwen2-72b-serial --strategy serial_tree \\\n"
      "    --prompt 'def fibonacci(n):' --json trace.json --svg trace.svg --length-ms 150");
  return with_hosts(
      command, &flags->engine, [flags] { return run_trace(*flags); }, [] { return true; });
}

}  // namespace forerun::app
