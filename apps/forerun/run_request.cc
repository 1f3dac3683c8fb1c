#include "run_request.h"

#include <chrono>
#include <iostream>
#include <utility>

#include "base/status_macros.h"
#include "interrupt.h"
#include "terminal.h"

namespace forerun::app {

Result<Completion> run_request(Engine& engine, Request request,
                               const std::function<void(const Event&)>& on_event,
                               const std::function<void()>& on_accepted) {
  FORERUN_ASSIGN_OR_RETURN(const std::shared_ptr<RequestStream> stream,
                           engine.submit(std::move(request)));
  on_accepted();
  Completion completion;
  bool cancelled = false;
  while (true) {
    std::optional<Event> event = stream->next_for(std::chrono::milliseconds(50));
    if (InterruptGuard::interrupted() && !cancelled) {
      stream->cancel();
      cancelled = true;
    }
    if (!event) continue;
    on_event(*event);
    if (!std::cout && !cancelled) {
      stream->cancel();  // the rest has no reader
      cancelled = true;
    }
    completion.text += event->text;
    completion.tokens.insert(completion.tokens.end(), event->tokens.begin(), event->tokens.end());
    completion.logprobs.insert(completion.logprobs.end(), event->logprobs.begin(),
                               event->logprobs.end());
    completion.prompt_logprobs.insert(completion.prompt_logprobs.end(),
                                      event->prompt_logprobs.begin(), event->prompt_logprobs.end());
    if (!event->finished) continue;
    if (event->reason == FinishReason::kError) return event->error;
    completion.reason = event->reason;
    completion.stats = std::move(event->stats);
    return completion;
  }
}

std::string describe(const RequestStats& stats) {
  std::string line =
      std::to_string(stats.output_tokens) + (stats.output_tokens == 1 ? " token, " : " tokens, ");
  if (stats.output_tokens > 1) line += format_fixed(stats.tokens_per_s(), 1) + " tokens/s, ";
  line += stats.strategy;
  if (stats.drafted_tokens > 0) {
    line += ", acceptance " + format_fixed(100.0 * stats.acceptance(), 0) + "%, " +
            format_fixed(stats.tokens_per_step(), 2) + " tokens a target step";
  }
  if (stats.reused_tokens > 0) {
    line += ", KV of " + std::to_string(stats.reused_tokens) + " tokens reused";
  }
  if (stats.output_tokens > 0) {
    line += ", first token after " + format_fixed(1000.0 * stats.time_to_first_token_s, 1) + " ms";
  }
  return line;
}

std::string describe_emulation(const Engine& engine) {
  if (engine.info().emulated.empty()) return "";
  const EmulationStats stats = engine.emulation();
  std::string line = "emulated " + engine.info().emulated + ": ";
  if (stats.late_steps == 0) {
    return line + "all " + std::to_string(stats.steps) + " Steps took the profile's time\n";
  }
  return line + std::to_string(stats.late_steps) + " of " + std::to_string(stats.steps) +
         " Steps were late, for their arithmetic alone takes longer here: by " +
         format_fixed(1000.0 * stats.late_seconds, 1) + " ms in all\n";
}

Result<Comparison> compare_with_plain(Engine& engine, Request request, const Completion& shown) {
  constexpr double kShortSeconds = 2.0;
  request.record_rounds = false;
  request.share_prefix = false;  // each request reads its own prompt
  Request plainly = request;
  plainly.speculation = SpeculationOptions{.strategy = "autoregressive"};
  Comparison comparison{shown, {}, true};
  const auto run = [&](const Request& wanted, bool first, Completion& fastest) -> Status {
    FORERUN_ASSIGN_OR_RETURN(Completion again, run_request(engine, wanted, [](const Event&) {}));
    comparison.identical = comparison.identical && (again.reason == FinishReason::kCancelled ||
                                                    again.tokens == shown.tokens);
    if (first || again.stats.tokens_per_s() > fastest.stats.tokens_per_s()) {
      fastest = std::move(again);
    }
    return {};
  };
  FORERUN_RETURN_IF_ERROR(run(plainly, true, comparison.plain));
  if (shown.stats.decode_s > kShortSeconds) return comparison;
  for (int turn = 0; turn < 2 && !InterruptGuard::interrupted(); ++turn) {
    FORERUN_RETURN_IF_ERROR(run(request, turn == 0, comparison.speculative));
    if (turn == 0) FORERUN_RETURN_IF_ERROR(run(plainly, false, comparison.plain));
  }
  return comparison;
}

std::string why_texts_may_differ(const std::string& accept) {
  if (accept.empty() || accept == "match") return "";
  if (accept == "rejection") {
    return " (--accept rejection keeps the distribution of texts, not each text: it may differ)";
  }
  return " (--accept " + accept + " trades the text for speed where requests are greedy)";
}

std::string describe(const Comparison& comparison, const SpeculationOptions& options) {
  const double base = comparison.plain.stats.tokens_per_s();
  const auto row = [&](const RequestStats& stats) {
    return std::vector<std::string>{
        stats.strategy, format_fixed(stats.tokens_per_s(), 1),
        format_fixed(stats.tokens_per_step(), 2),
        stats.drafted_tokens > 0 ? format_fixed(100.0 * stats.acceptance(), 0) + "%" : "-",
        base > 0 ? format_fixed(stats.tokens_per_s() / base, 2) + "x" : "-"};
  };
  return format_table({{"strategy", "tokens/s", "tokens/step", "accepted", "speed-up"},
                       row(comparison.plain.stats),
                       row(comparison.speculative.stats)}) +
         "identical: " + (comparison.identical ? "yes" : "no") +
         why_texts_may_differ(options.accept) + "\n";
}

}  // namespace forerun::app
