#include "runner/long_prompt.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "runner/timed_queue.h"

namespace forerun::bench {
namespace {

// Number of arrivals of the slowest request after which reading prompts no longer affects its
// times, and number of arrivals in the quiet time.
constexpr size_t kArrivalsToSettle = 3;
constexpr size_t kArrivalsBefore = 32;
// The time at which the second long prompt is cancelled, as a share of the time that the first one
// took.
constexpr double kCancelAfter = 1.0 / 3;

class LongPromptRun {
 public:
  LongPromptRun(Engine& engine, const LoadOptions& options, const std::vector<int32_t>& prompt,
                TimedQueue& queue)
      : engine_(engine), options_(options), long_prompt_(prompt), queue_(queue) {}

  Result<LongPromptRow> run(const std::string& strategy, float temperature) {
    Result<LongPromptRow> row = measure(strategy, temperature);
    queue_.cancel_all();
    while (const std::optional<TimedEvent> read = queue_.next(TimedQueue::kNever)) {
    }
    return row;
  }

  Result<double> destroy(std::unique_ptr<Engine> engine, double delay_s) {
    FORERUN_RETURN_IF_ERROR(start(options_.strategies.front(), options_.temperatures.front()));
    FORERUN_RETURN_IF_ERROR(submit(long_idx_, long_prompt_, 1));
    const RequestRecord& record = records_[long_idx_];
    FORERUN_RETURN_IF_ERROR(
        read_until([&] { return record.finished_s > 0; }, record.submitted_s + delay_s));
    if (record.finished_s > 0) return too_short("the long prompt had been read");
    const double destroyed_s = now_s();
    engine.reset();
    return now_s() - destroyed_s;
  }

 private:
  // Runs until all requests decode.
  Status start(const std::string& strategy, float temperature) {
    strategy_ = strategy;
    temperature_ = temperature;
    long_idx_ = static_cast<size_t>(options_.requests);
    records_.assign(long_idx_ + 1, RequestRecord());
    for (size_t index = 0; index < long_idx_; ++index) {
      const auto& prompts = options_.prompts;
      FORERUN_RETURN_IF_ERROR(
          submit(index, prompts[index % prompts.size()], options_.max_new_tokens));
    }
    return read_until([&] { return fewest_arrivals() >= kArrivalsToSettle; });
  }

  Result<LongPromptRow> measure(const std::string& strategy, float temperature) {
    FORERUN_RETURN_IF_ERROR(start(strategy, temperature));
    LongPromptRow row;
    row.strategy = strategy;
    row.temperature = temperature;
    row.requests = options_.requests;
    row.long_prompt_tokens = static_cast<int32_t>(long_prompt_.size());

    const double quiet_s = now_s();
    const size_t enough = fewest_arrivals() + kArrivalsBefore;
    FORERUN_RETURN_IF_ERROR(read_until([&] { return fewest_arrivals() >= enough; }));
    const double before_s = now_s();
    collect(quiet_s, before_s, &row.before_s, &row.events_before_s);

    FORERUN_RETURN_IF_ERROR(submit(long_idx_, long_prompt_, 1));
    RequestRecord& record = records_[long_idx_];
    FORERUN_RETURN_IF_ERROR(read_until([&] { return record.finished_s > 0; }));
    row.first_token_s = record.first_token_s() - record.submitted_s;
    const double read_s = record.first_token_s();
    // The intervals that were open when the prompt ended end with every request's next tokens.
    FORERUN_RETURN_IF_ERROR(read_until([&] { return oldest_arrival_s() > read_s; }));
    row.tokens_during = collect(record.submitted_s, read_s, &row.during_s, &row.events_during_s);

    record = RequestRecord();
    FORERUN_RETURN_IF_ERROR(submit(long_idx_, long_prompt_, 1));
    FORERUN_RETURN_IF_ERROR(read_until([&] { return record.finished_s > 0; },
                                       record.submitted_s + kCancelAfter * row.first_token_s));
    if (record.finished_s > 0) return too_short("the long prompt had been read");
    const double cancelled_s = now_s();
    queue_.cancel(long_idx_);
    FORERUN_RETURN_IF_ERROR(read_until([&] { return record.finished_s > 0; }));
    row.cancel_s = record.finished_s - cancelled_s;
    return row;
  }

  Status submit(size_t index, const std::vector<int32_t>& prompt, int32_t max_new_tokens) {
    Request request;
    request.prompt_tokens = prompt;
    request.sampling = options_.sampling;
    request.sampling.temperature = temperature_;
    request.sampling.seed = options_.first_seed + index;
    request.max_new_tokens = max_new_tokens;
    request.ignore_eos = true;
    request.share_prefix = false;
    request.speculation = options_for(strategy_, options_.speculation);
    records_[index].submitted_s = now_s();
    return queue_.submit(engine_, std::move(request), index);
  }

  template <class Done>
  Status read_until(Done done, double until_s = TimedQueue::kNever) {
    while (!done()) {
      std::optional<TimedEvent> read = queue_.next(until_s);
      FORERUN_RETURN_IF_ERROR(queue_.stop_status());
      if (!read) {
        return until_s != TimedQueue::kNever ? Status() : too_short("no request was left");
      }
      RequestRecord& record = records_[read->request];
      const Event& event = read->event;
      if (!event.tokens.empty()) {
        record.arrivals.push_back({read->s, static_cast<int32_t>(event.tokens.size())});
      }
      if (!event.finished) continue;
      record.finished_s = read->s;
      if (event.reason == FinishReason::kError) return event.error;
      if (read->request != long_idx_) return too_short("a request had all its tokens");
    }
    return Status();
  }

  Status too_short(const std::string& what) const {
    return Status(StatusCode::kInvalidArgument,
                  "long prompt: " + what +
                      " before everything was measured; needs more --max-tokens than " +
                      std::to_string(options_.max_new_tokens) + ", or a prompt of other length");
  }

  size_t fewest_arrivals() const {
    size_t fewest = records_.front().arrivals.size();
    for (size_t index = 0; index < long_idx_; ++index) {
      fewest = std::min(fewest, records_[index].arrivals.size());
    }
    return fewest;
  }

  double oldest_arrival_s() const {
    double oldest_s = TimedQueue::kNever;
    for (size_t index = 0; index < long_idx_; ++index) {
      oldest_s = std::min(oldest_s, records_[index].arrivals.back().s);
    }
    return oldest_s;
  }

  // Collects the times between tokens, and between events, that overlap [from_s, to_s]; returns the
  // number of tokens.
  int64_t collect(double from_s, double to_s, Spread* tokens, Spread* events) const {
    std::vector<double> token_gaps, event_gaps;
    for (size_t index = 0; index < long_idx_; ++index) {
      for (const bool of_tokens : {true, false}) {
        const std::vector<double> gaps = gaps_within(records_[index], from_s, to_s, of_tokens);
        std::vector<double>& all = of_tokens ? token_gaps : event_gaps;
        all.insert(all.end(), gaps.begin(), gaps.end());
      }
    }
    *tokens = spread_of(token_gaps);
    *events = spread_of(event_gaps);
    return static_cast<int64_t>(token_gaps.size());
  }

  Engine& engine_;
  const LoadOptions& options_;
  const std::vector<int32_t>& long_prompt_;
  TimedQueue& queue_;
  std::string strategy_;
  float temperature_ = 0.0f;
  size_t long_idx_ = 0;  // index of the long prompt in records_, after the decoding requests
  std::vector<RequestRecord> records_;
};

}  // namespace

std::vector<double> gaps_within(const RequestRecord& record, double from_s, double to_s,
                                bool tokens) {
  std::vector<double> gaps;
  for (size_t idx = 1; idx < record.arrivals.size(); ++idx) {
    const double begin_s = record.arrivals[idx - 1].s, end_s = record.arrivals[idx].s;
    if (end_s <= from_s || begin_s >= to_s) continue;
    gaps.push_back(end_s - begin_s);
    if (!tokens) continue;
    gaps.insert(gaps.end(), static_cast<size_t>(record.arrivals[idx].tokens - 1), 0.0);
  }
  return gaps;
}

Result<std::vector<LongPromptRow>> run_long_prompt(Engine& engine, const LoadOptions& options,
                                                   const std::vector<int32_t>& long_prompt) {
  FORERUN_ASSIGN_OR_RETURN(TimedQueue queue, TimedQueue::create(options.stop));
  std::vector<LongPromptRow> rows;
  for (const float temperature : options.temperatures) {
    for (const std::string& strategy : options.strategies) {
      LongPromptRun run(engine, options, long_prompt, queue);
      Result<LongPromptRow> row = run.run(strategy, temperature);
      if (row.status().code() == StatusCode::kCancelled) return rows;
      if (!row.ok()) return row.status();
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

Result<double> seconds_to_destroy(std::unique_ptr<Engine> engine, const LoadOptions& options,
                                  const std::vector<int32_t>& long_prompt, double delay_s) {
  FORERUN_ASSIGN_OR_RETURN(TimedQueue queue, TimedQueue::create(options.stop));
  LongPromptRun run(*engine, options, long_prompt, queue);
  return run.destroy(std::move(engine), delay_s);
}

}  // namespace forerun::bench
