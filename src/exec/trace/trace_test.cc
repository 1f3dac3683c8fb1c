// Tests the analysis of traces, and the two exported files.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/trace/chrome_trace.h"
#include "exec/trace/timeline_svg.h"
#include "exec/trace/trace_view.h"

namespace forerun {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kUs = 1'000;

TraceStep step_of(bool draft, int64_t submit_ns, int64_t start_ns, int64_t end_ns) {
  TraceStep step;
  step.draft = draft;
  step.rows = draft ? 4 : 8;
  step.start_ns = start_ns;
  step.end_ns = end_ns;
  step.host_cpu_ns = 5 * kUs;
  step.items.push_back({.request = 1, .rows = step.rows, .submit_ns = submit_ns});
  return step;
}

TraceTurn turn_of(bool draft, int64_t start_ns, int32_t tokens, Reroot reroot = Reroot::kNone) {
  TraceTurn turn;
  turn.request = 1;
  turn.draft = draft;
  turn.start_ns = start_ns;
  turn.end_ns = start_ns + 10 * kUs;
  turn.cpu_ns = 8 * kUs;
  turn.submitted = 1;
  turn.tokens = tokens;
  turn.verified_rows = tokens > 0 ? 8 : 0;
  turn.accepted_nodes = tokens > 0 ? tokens - 1 : 0;
  turn.reroot = reroot;
  return turn;
}

// Returns a prefill and two serial rounds, a hit and a miss; times begin at 7 s.
Trace small_trace() {
  const int64_t t = 7'000 * kMs;
  Trace trace;
  trace.steps.push_back(step_of(false, t, t, t + 10 * kMs));
  trace.turns.push_back(turn_of(false, t + 10 * kMs, 1));
  trace.steps.push_back(
      step_of(true, t + 10 * kMs + 5 * kUs, t + 10 * kMs + 30 * kUs, t + 13 * kMs));
  trace.turns.push_back(turn_of(true, t + 13 * kMs, 0));
  trace.steps.push_back(
      step_of(false, t + 13 * kMs + 5 * kUs, t + 13 * kMs + 25 * kUs, t + 23 * kMs));
  trace.turns.push_back(turn_of(false, t + 23 * kMs, 3, Reroot::kHit));
  trace.steps.push_back(
      step_of(true, t + 23 * kMs + 5 * kUs, t + 23 * kMs + 35 * kUs, t + 26 * kMs));
  trace.turns.push_back(turn_of(true, t + 26 * kMs, 0));
  trace.steps.push_back(
      step_of(false, t + 26 * kMs + 5 * kUs, t + 26 * kMs + 15 * kUs, t + 36 * kMs));
  trace.turns.push_back(turn_of(false, t + 36 * kMs, 1, Reroot::kMiss));
  trace.steps.push_back(
      step_of(true, t + 36 * kMs + 5 * kUs, t + 36 * kMs + 25 * kUs, t + 39 * kMs));
  return trace;
}

TEST(TraceView, RoundsRunFromResultToResultAndKnowTheirTrees) {
  const std::vector<TraceRound> rounds = rounds_of(small_trace());
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[0].end_ns - rounds[0].start_ns, 13 * kMs);
  EXPECT_EQ(rounds[0].tokens, 3);
  EXPECT_EQ(rounds[0].accepted_nodes, 2);
  EXPECT_EQ(rounds[0].reroot, Reroot::kHit);
  EXPECT_EQ(rounds[1].reroot, Reroot::kMiss);
  // Two turns of 8 us and two Steps of 5 us each.
  EXPECT_EQ(rounds[0].host_cpu_ns, 26 * kUs);
  EXPECT_EQ(rounds[1].host_cpu_ns, 26 * kUs);
}

TEST(TraceView, RequestsKeepTheirRoundsApart) {
  Trace trace = small_trace();
  Trace other = small_trace();
  for (TraceStep& step : other.steps) {
    step.items[0].request = 2;
    step.start_ns += kMs;
    step.end_ns += kMs;
    step.items[0].submit_ns += kMs;
  }
  for (TraceTurn& turn : other.turns) {
    turn.request = 2;
    if (turn.reroot == Reroot::kHit) turn.reroot = Reroot::kMiss;
    turn.start_ns += kMs;
  }
  trace.steps.insert(trace.steps.end(), other.steps.begin(), other.steps.end());
  trace.turns.insert(trace.turns.end(), other.turns.begin(), other.turns.end());
  std::map<uint64_t, std::vector<Reroot>> reroots;
  for (const TraceRound& round : rounds_of(trace)) {
    reroots[round.request].push_back(round.reroot);
    EXPECT_EQ(round.host_cpu_ns, 26 * kUs);
  }
  EXPECT_EQ(reroots[1], (std::vector<Reroot>{Reroot::kHit, Reroot::kMiss}));
  EXPECT_EQ(reroots[2], (std::vector<Reroot>{Reroot::kMiss, Reroot::kMiss}));
}

TEST(TraceView, GapsTellWaitingFromTheHost) {
  const std::vector<TraceGap> gaps = gaps_of(small_trace());
  ASSERT_EQ(gaps.size(), 4u);
  EXPECT_FALSE(gaps[0].draft);
  EXPECT_EQ(gaps[0].end_ns - gaps[0].start_ns, 3 * kMs + 25 * kUs);
  EXPECT_EQ(gaps[0].host_ns(), 20 * kUs);
  EXPECT_EQ(gaps[1].host_ns(), 10 * kUs);
  EXPECT_TRUE(gaps[2].draft);
  EXPECT_EQ(gaps[2].host_ns(), 30 * kUs);
  // If work was waiting before the previous Step had ended, all of the gap is the host's.
  Trace queued;
  queued.steps.push_back(step_of(true, 0, 0, kMs));
  queued.steps.push_back(step_of(true, 0, kMs + 40 * kUs, 2 * kMs));
  ASSERT_EQ(gaps_of(queued).size(), 1u);
  EXPECT_EQ(gaps_of(queued)[0].host_ns(), 40 * kUs);
}

TEST(TraceView, TheSummaryHoldsTheFigures) {
  const std::string text = summarize(small_trace());
  EXPECT_NE(text.find("target       3 Steps"), std::string::npos) << text;
  EXPECT_NE(text.find("2.00 tokens each  1 hits, 1 misses"), std::string::npos) << text;
  EXPECT_NE(text.find("host    26.0 us a round median"), std::string::npos) << text;
  EXPECT_NE(text.find("8.0 us median, 8.0 us p99 from a draft's result"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("not recorded"), std::string::npos);
  Trace dropped;
  dropped.dropped = 3;
  EXPECT_NE(summarize(dropped).find("3 Steps and turns were not recorded"), std::string::npos);
}

TEST(ChromeTrace, IsJsonWithALaneEach) {
  const auto json = nlohmann::json::parse(chrome_trace(small_trace()));
  std::map<std::string, int> lanes;
  std::map<int, int> slices;
  double first = 1e18;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") {
      if (event.at("name") == "thread_name") {
        lanes[event.at("args").at("name").get<std::string>()] = event.at("tid").get<int>();
      }
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    EXPECT_GT(event.at("dur").get<double>(), 0.0);
    first = std::min(first, event.at("ts").get<double>());
    ++slices[event.at("tid").get<int>()];
  }
  ASSERT_EQ(lanes.size(), 4u);
  EXPECT_EQ(first, 0.0);
  EXPECT_EQ(slices[lanes["target"]], 3 + 2);  // Steps and host gaps
  EXPECT_EQ(slices[lanes["draft"]], 3 + 2);
  EXPECT_EQ(slices[lanes["host: policy"]], 5);
  EXPECT_EQ(slices[lanes["rounds of request 1"]], 2);
  EXPECT_TRUE(nlohmann::json::parse(chrome_trace({})).at("traceEvents").is_array());
}

// Checks that every element that opens also closes, in order, and that text and attributes hold no
// bare markup.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  size_t at = 0;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Returns two Steps that pass three stages one after the other; three of the second one's eight
// rows remain at the second stage, none at the last.
Trace staged_trace() {
  Trace trace;
  for (const int64_t at : {0, 10}) {
    TraceStep step = step_of(false, at * kMs, at * kMs, (at + 32) * kMs);
    const std::array<int32_t, 3> live = {8, at == 0 ? 8 : 3, at == 0 ? 8 : 0};
    for (int32_t stage = 0; stage < 3; ++stage) {
      const int64_t start = at + 11 * stage;
      step.stages.push_back({.rows = live[static_cast<size_t>(stage)],
                             .start_ns = start * kMs,
                             .end_ns = (start + 10) * kMs,
                             .sent_ns = (start + 11) * kMs});
    }
    trace.steps.push_back(step);
  }
  trace.steps.push_back(step_of(true, 0, kMs, 5 * kMs));
  trace.turns.push_back(turn_of(false, 33 * kMs, 1, Reroot::kMiss));
  return trace;
}

TEST(TimelineSvg, AStageHasALaneWithWhatWasAlive) {
  const std::string svg = timeline_svg(staged_trace(), {});
  expect_well_formed(svg);
  for (const char* lane : {">stage 1<", ">stage 2<", ">stage 3<", ">draft<"}) {
    EXPECT_EQ(count_of(svg, lane), 1u) << lane;
  }
  EXPECT_EQ(count_of(svg, ">target<"), 0u);
  EXPECT_EQ(count_of(svg, "8 of 8 rows"), 4u);
  EXPECT_EQ(count_of(svg, "3 of 8 rows"), 1u);
  EXPECT_EQ(count_of(svg, "0 of 8 rows"), 1u);
  // Dropped rows, marked at a box's top, are not sent on.
  EXPECT_EQ(count_of(svg, "#b8c4d4"), 2u + 1u);
  EXPECT_EQ(count_of(svg, "stroke=\"#88aacc\""), 4u);
  EXPECT_TRUE(gaps_of(staged_trace()).empty());
}

TEST(ChromeTrace, AStageHasALane) {
  const auto json = nlohmann::json::parse(chrome_trace(staged_trace()));
  std::map<std::string, int> lanes;
  std::map<int, std::vector<int>> live;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("name") == "thread_name") {
      lanes[event.at("args").at("name").get<std::string>()] = event.at("tid").get<int>();
    } else if (event.at("ph") == "X" && event.at("args").contains("live_rows")) {
      live[event.at("tid").get<int>()].push_back(event.at("args").at("live_rows").get<int>());
    }
  }
  EXPECT_EQ(live[lanes.at("stage 1")], (std::vector<int>{8, 8}));
  EXPECT_EQ(live[lanes.at("stage 2")], (std::vector<int>{8, 3}));
  EXPECT_EQ(live[lanes.at("stage 3")], (std::vector<int>{8, 0}));
}

TEST(TimelineSvg, DrawsStepsRoundsAndGaps) {
  TimelineOptions options;
  options.title = "a <b> & \"c\"";
  const std::string svg = timeline_svg(small_trace(), options);
  expect_well_formed(svg);
  EXPECT_NE(svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(count_of(svg, "rows, context"), 6u);
  EXPECT_EQ(count_of(svg, "<title>host gap"), 4u);
  EXPECT_EQ(count_of(svg, ">+3</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">+1</text>"), 1u);
  EXPECT_NE(svg.find(">target</text>"), std::string::npos);
  EXPECT_NE(svg.find(">draft</text>"), std::string::npos);
}

TEST(TimelineSvg, AWindowShowsOnlyWhatLiesInIt) {
  TimelineOptions options;
  options.from_ms = 14.0;
  options.length_ms = 5.0;
  const std::string svg = timeline_svg(small_trace(), options);
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, "rows, context"), 1u);
  EXPECT_EQ(count_of(svg, ">+3</text>"), 0u);
  options.from_ms = 1e6;
  expect_well_formed(timeline_svg(small_trace(), options));
  expect_well_formed(timeline_svg({}, {}));
}

}  // namespace
}  // namespace forerun
