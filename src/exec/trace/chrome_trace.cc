#include "exec/trace/chrome_trace.h"

#include <cstdint>
#include <cstdio>
#include <map>

#include "exec/trace/trace_view.h"

namespace forerun {
namespace {

// Lanes. Each request has a lane for its rounds, from kRounds on, since requests overlap.
constexpr int kTarget = 1;
constexpr int kDraft = 2;
constexpr int kHost = 3;
constexpr int kStages = 1000;  // lanes of stages begin here
constexpr int kRounds = 10;

const char* reroot_name(Reroot reroot) {
  switch (reroot) {
    case Reroot::kHit:
      return "hit";
    case Reroot::kMiss:
      return "miss";
    case Reroot::kNone:
      break;
  }
  return "none";
}

const char* colour_of(Reroot reroot) {
  switch (reroot) {
    case Reroot::kHit:
      return "good";
    case Reroot::kMiss:
      return "terrible";
    case Reroot::kNone:
      break;
  }
  return "grey";
}

class Writer {
 public:
  explicit Writer(int64_t origin_ns) : origin_ns_(origin_ns) {}

  void name_lane(int lane, const std::string& name) {
    begin_event();
    out_ += R"("name":"thread_name","ph":"M","pid":1,"tid":)" + std::to_string(lane) +
            R"(,"args":{"name":")" + name + "\"}}";
    begin_event();
    out_ += R"("name":"thread_sort_index","ph":"M","pid":1,"tid":)" + std::to_string(lane) +
            R"(,"args":{"sort_index":)" + std::to_string(lane) + "}}";
  }
  // Adds a slice. `colour` is one of the format's reserved names; `args` is the inside of a JSON
  // object.
  void slice(int lane, const std::string& name, const char* colour, int64_t start_ns,
             int64_t end_ns, const std::string& args) {
    begin_event();
    char times[96];
    std::snprintf(times, sizeof times, R"(,"ts":%.3f,"dur":%.3f)", microseconds(start_ns),
                  1e-3 * static_cast<double>(end_ns - start_ns));
    out_ += "\"name\":\"" + name + R"(","ph":"X","pid":1,"tid":)" + std::to_string(lane) + times +
            ",\"cname\":\"" + colour + R"(","args":{)" + args + "}}";
  }
  std::string finish() { return out_ + "\n],\"displayTimeUnit\":\"ms\"}\n"; }

 private:
  void begin_event() {
    out_ += first_ ? "\n{" : ",\n{";
    first_ = false;
  }
  double microseconds(int64_t ns) const { return 1e-3 * static_cast<double>(ns - origin_ns_); }

  const int64_t origin_ns_;
  bool first_ = true;
  std::string out_ = "{\"traceEvents\":[";
};

std::string field(const char* name, int64_t value) {
  return "\"" + std::string(name) + "\":" + std::to_string(value);
}

void write_step(const TraceStep& step, Writer& writer) {
  std::string args = field("rows", step.rows) + "," + field("context", step.context_tokens) + "," +
                     field("host_cpu_ns", step.host_cpu_ns) + ",\"items\":[";
  for (const TraceItem& item : step.items) {
    if (&item != step.items.data()) args += ",";
    args += "{" + field("request", static_cast<int64_t>(item.request)) + "," +
            field("rows", item.rows) + "," + field("queued_ns", step.start_ns - item.submit_ns) +
            "}";
  }
  const char* colour = step.draft ? "rail_response" : "thread_state_running";
  const std::string name = std::to_string(step.rows) + " rows";
  if (step.stages.empty()) {
    writer.slice(step.draft ? kDraft : kTarget, name, colour, step.start_ns, step.end_ns,
                 args + "]");
  }
  // Steps in a pipeline overlap, so each stage has a lane.
  for (size_t idx = 0; idx < step.stages.size(); ++idx) {
    const TraceStage& stage = step.stages[idx];
    writer.slice(kStages + static_cast<int>(idx), name, colour, stage.start_ns, stage.end_ns,
                 field("live_rows", stage.rows) + "," +
                     field("on_the_link_ns", stage.sent_ns - stage.end_ns) + "," + args + "]");
  }
}

}  // namespace

std::string chrome_trace(const Trace& trace) {
  Writer writer(span_of(trace).start_ns);
  writer.name_lane(kTarget, "target");
  writer.name_lane(kDraft, "draft");
  writer.name_lane(kHost, "host: policy");
  for (size_t stage = 0; stage < num_stages(trace); ++stage) {
    writer.name_lane(kStages + static_cast<int>(stage), "stage " + std::to_string(stage + 1));
  }
  std::map<uint64_t, int> lanes;
  for (const TraceRound& round : rounds_of(trace)) {
    const auto [lane, is_new] =
        lanes.try_emplace(round.request, kRounds + static_cast<int>(lanes.size()));
    if (is_new) {
      writer.name_lane(lane->second, "rounds of request " + std::to_string(round.request));
    }
    writer.slice(lane->second, std::string("round, ") + reroot_name(round.reroot),
                 colour_of(round.reroot), round.start_ns, round.end_ns,
                 field("request", static_cast<int64_t>(round.request)) + "," +
                     field("tokens", round.tokens) + "," +
                     field("verified_rows", round.verified_rows) + "," +
                     field("accepted", round.accepted_nodes) + "," +
                     field("host_cpu_ns", round.host_cpu_ns));
  }
  for (const TraceStep& step : trace.steps) write_step(step, writer);
  for (const TraceGap& gap : gaps_of(trace)) {
    if (gap.host_ns() == 0) continue;
    writer.slice(gap.draft ? kDraft : kTarget, "host gap", "grey", gap.ready_ns, gap.end_ns,
                 field("idle_before_ns", gap.ready_ns - gap.start_ns));
  }
  for (const TraceTurn& turn : trace.turns) {
    writer.slice(kHost, turn.draft ? "after draft" : "after target", "generic_work", turn.start_ns,
                 turn.end_ns,
                 field("request", static_cast<int64_t>(turn.request)) + "," +
                     field("cpu_ns", turn.cpu_ns) + "," + field("submitted", turn.submitted) + "," +
                     field("tokens", turn.tokens));
  }
  return writer.finish();
}

}  // namespace forerun
