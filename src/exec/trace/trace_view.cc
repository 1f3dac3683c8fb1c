#include "exec/trace/trace_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

namespace forerun {
namespace {

struct Quantiles {
  double median = 0.0;
  double p99 = 0.0;
};

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(std::ceil(share * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.5), at(0.99)};
}

std::string line(const char* format, double a, double b = 0.0, double c = 0.0, double d = 0.0) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b, c, d);
  return text;
}

std::vector<const TraceStep*> steps_of(const Trace& trace, bool draft) {
  std::vector<const TraceStep*> steps;
  for (const TraceStep& step : trace.steps) {
    if (step.draft == draft) steps.push_back(&step);
  }
  std::stable_sort(steps.begin(), steps.end(), [](const TraceStep* a, const TraceStep* b) {
    return a->start_ns < b->start_ns;
  });
  return steps;
}

std::string summarize_model(const Trace& trace, bool draft, double total_ns) {
  const std::vector<const TraceStep*> steps = steps_of(trace, draft);
  if (steps.empty()) return "";
  std::vector<double> ms, rows;
  double busy_ns = 0.0;
  for (const TraceStep* step : steps) {
    const auto ns = static_cast<double>(step->end_ns - step->start_ns);
    busy_ns += ns;
    ms.push_back(1e-6 * ns);
    rows.push_back(step->rows);
  }
  std::vector<double> host_us;
  for (const TraceGap& gap : gaps_of(trace)) {
    if (gap.draft == draft) host_us.push_back(1e-3 * static_cast<double>(gap.host_ns()));
  }
  return std::string(draft ? "draft " : "target") +
         line("  %6.0f Steps  %8.3f ms median  %4.0f rows median  busy %3.0f%%",
              static_cast<double>(steps.size()), quantiles_of(ms).median, quantiles_of(rows).median,
              total_ns > 0.0 ? 100.0 * busy_ns / total_ns : 0.0) +
         line("  host gap %.1f us median, %.1f us p99\n", quantiles_of(host_us).median,
              quantiles_of(host_us).p99);
}

// Finds a request's round by time.
class RoundIndex {
 public:
  explicit RoundIndex(std::vector<TraceRound>* rounds) : rounds_(*rounds) {
    for (TraceRound& round : rounds_) by_request_[round.request].push_back(&round);
  }
  // Returns the round that contains `ns`, with its end but without its start; null if there is
  // none.
  TraceRound* containing(uint64_t request, int64_t ns) {
    const auto found = by_request_.find(request);
    if (found == by_request_.end()) return nullptr;
    const auto round = std::lower_bound(
        found->second.begin(), found->second.end(), ns,
        [](const TraceRound* each, int64_t value) { return each->end_ns < value; });
    return round != found->second.end() && (*round)->start_ns < ns ? *round : nullptr;
  }

 private:
  std::vector<TraceRound>& rounds_;
  std::map<uint64_t, std::vector<TraceRound*>> by_request_;  // in the order of their ends
};

}  // namespace

std::vector<TraceRound> rounds_of(const Trace& trace) {
  std::vector<TraceTurn> turns = trace.turns;
  std::stable_sort(turns.begin(), turns.end(),
                   [](const TraceTurn& a, const TraceTurn& b) { return a.start_ns < b.start_ns; });
  std::vector<TraceRound> rounds;
  std::map<uint64_t, int64_t> last_result;
  for (const TraceTurn& turn : turns) {
    if (turn.draft || turn.tokens == 0) continue;
    const auto [last, first_one] = last_result.try_emplace(turn.request, turn.start_ns);
    if (!first_one) {
      TraceRound round;
      round.request = turn.request;
      round.start_ns = last->second;
      round.end_ns = turn.start_ns;
      round.tokens = turn.tokens;
      round.verified_rows = turn.verified_rows;
      round.accepted_nodes = turn.accepted_nodes;
      round.reroot = turn.reroot;
      rounds.push_back(round);
      last->second = turn.start_ns;
    }
  }
  RoundIndex index(&rounds);
  // A turn at a round's very end answers its result, so it belongs to the next one.
  for (const TraceTurn& turn : turns) {
    if (TraceRound* round = index.containing(turn.request, turn.start_ns + 1)) {
      round->host_cpu_ns += turn.cpu_ns;
    }
  }
  for (const TraceStep& step : trace.steps) {
    for (const TraceItem& item : step.items) {
      if (TraceRound* round = index.containing(item.request, step.end_ns)) {
        round->host_cpu_ns += step.host_cpu_ns / static_cast<int64_t>(step.items.size());
      }
    }
  }
  return rounds;
}

std::vector<TraceGap> gaps_of(const Trace& trace) {
  std::vector<TraceGap> gaps;
  for (const bool draft : {false, true}) {
    const TraceStep* before = nullptr;
    for (const TraceStep* step : steps_of(trace, draft)) {
      if (before != nullptr && step->stages.empty() && step->start_ns > before->end_ns) {
        int64_t submit_ns =
            step->items.empty() ? before->end_ns : std::numeric_limits<int64_t>::max();
        for (const TraceItem& item : step->items) submit_ns = std::min(submit_ns, item.submit_ns);
        gaps.push_back({draft, before->end_ns,
                        std::clamp(submit_ns, before->end_ns, step->start_ns), step->start_ns});
      }
      before = step;
    }
  }
  return gaps;
}

size_t num_stages(const Trace& trace) {
  size_t stages = 0;
  for (const TraceStep& step : trace.steps) stages = std::max(stages, step.stages.size());
  return stages;
}

TraceSpan span_of(const Trace& trace) {
  TraceSpan span{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const TraceStep& step : trace.steps) {
    span.start_ns = std::min(span.start_ns, step.start_ns);
    span.end_ns = std::max(span.end_ns, step.end_ns);
  }
  for (const TraceTurn& turn : trace.turns) {
    span.start_ns = std::min(span.start_ns, turn.start_ns);
    span.end_ns = std::max(span.end_ns, turn.end_ns);
  }
  return span.start_ns <= span.end_ns ? span : TraceSpan{};
}

std::string summarize(const Trace& trace) {
  const TraceSpan span = span_of(trace);
  const auto total_ns = static_cast<double>(span.end_ns - span.start_ns);
  std::string out =
      summarize_model(trace, false, total_ns) + summarize_model(trace, true, total_ns);
  const std::vector<TraceRound> rounds = rounds_of(trace);
  std::vector<double> host_us;
  double tokens = 0.0, hits = 0.0, misses = 0.0;
  for (const TraceRound& round : rounds) {
    host_us.push_back(1e-3 * static_cast<double>(round.host_cpu_ns));
    tokens += round.tokens;
    hits += round.reroot == Reroot::kHit ? 1.0 : 0.0;
    misses += round.reroot == Reroot::kMiss ? 1.0 : 0.0;
  }
  const auto count = static_cast<double>(rounds.size());
  out += line("rounds  %6.0f  %8.2f tokens each  %.0f hits, %.0f misses\n", count,
              count > 0.0 ? tokens / count : 0.0, hits, misses);
  std::vector<double> draft_turns_us;
  for (const TraceTurn& turn : trace.turns) {
    if (turn.draft && turn.submitted > 0) {
      draft_turns_us.push_back(1e-3 * static_cast<double>(turn.cpu_ns));
    }
  }
  const Quantiles host = quantiles_of(host_us);
  const Quantiles turn = quantiles_of(draft_turns_us);
  out += line("host    %.1f us a round median, %.1f us p99 (thread CPU time)\n", host.median,
              host.p99);
  out += line("        %.1f us median, %.1f us p99 from a draft's result to its next work\n",
              turn.median, turn.p99);
  if (trace.dropped > 0) {
    out += line("%.0f Steps and turns were not recorded\n", static_cast<double>(trace.dropped));
  }
  return out;
}

}  // namespace forerun
