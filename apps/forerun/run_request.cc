#include "run_request.h"

#include <chrono>
#include <utility>

#include "interrupt.h"
#include "terminal.h"

namespace forerun::app {

Result<Completion> run_request(Engine& engine, Request request,
                               const std::function<void(const Event&)>& on_event) {
  FORERUN_ASSIGN_OR_RETURN(const std::shared_ptr<RequestStream> stream,
                           engine.submit(std::move(request)));
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
    completion.text += event->text;
    completion.tokens.insert(completion.tokens.end(), event->tokens.begin(), event->tokens.end());
    if (!event->finished) continue;
    if (event->reason == FinishReason::kError) return event->error;
    completion.reason = event->reason;
    completion.stats = std::move(event->stats);
    return completion;
  }
}

std::string describe(const RequestStats& stats) {
  std::string line = std::to_string(stats.output_tokens) + " tokens, " +
                     format_fixed(stats.tokens_per_s(), 1) + " tokens/s, " + stats.strategy;
  if (stats.drafted_tokens > 0) {
    line += ", acceptance " + format_fixed(100.0 * stats.acceptance(), 0) + "%, " +
            format_fixed(stats.tokens_per_step(), 2) + " tokens a target step";
  }
  line += ", first token after " + format_fixed(1000.0 * stats.time_to_first_token_s, 1) + " ms";
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

std::string compare(const Completion& speculative, const Completion& plain) {
  const auto row = [&](const std::string& name, const RequestStats& stats) {
    const double base = plain.stats.tokens_per_s();
    return std::vector<std::string>{
        name, format_fixed(stats.tokens_per_s(), 1), format_fixed(stats.tokens_per_step(), 2),
        stats.drafted_tokens > 0 ? format_fixed(100.0 * stats.acceptance(), 0) + "%" : "-",
        base > 0 ? format_fixed(stats.tokens_per_s() / base, 2) + "x" : "-"};
  };
  std::string out = format_table({{"strategy", "tokens/s", "tokens/step", "accepted", "speed-up"},
                                  row(plain.stats.strategy, plain.stats),
                                  row(speculative.stats.strategy, speculative.stats)});
  const bool identical = speculative.tokens == plain.tokens;
  out += std::string("identical: ") + (identical ? "yes" : "no") + "\n";
  return out;
}

}  // namespace forerun::app
