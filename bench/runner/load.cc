#include "runner/load.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "runner/timed_queue.h"

namespace forerun::bench {
namespace {

constexpr char kPlain[] = "autoregressive";
constexpr int32_t kWarmupTokens = 16;

// One pass of the requests through the engine.
struct Pass {
  std::string strategy;
  float temperature = 0.0f;
  int requests = 0;
  int concurrency = 0;
  Arrivals arrivals;
  int32_t max_new_tokens = 0;
  bool counts = true;  // counts towards the progress
  int at_once() const { return concurrency > 0 ? std::min(concurrency, requests) : requests; }
};

class LoadRun {
 public:
  LoadRun(Engine& engine, const LoadOptions& options) : engine_(engine), options_(options) {
    for (const int concurrency : options.concurrencies) {
      total_ += requests_at(concurrency) * options.repeats *
                static_cast<int>(options.strategies.size() * options.temperatures.size());
    }
  }

  Result<std::vector<LoadRow>> run() {
    std::vector<LoadRow> rows;
    const Status status = run_all(&rows);
    if (!status.ok() && status.code() != StatusCode::kCancelled) return status;
    return rows;
  }

 private:
  struct Best {
    LoadRow row;
    std::vector<RequestRecord> records;
  };

  // Fails with kCancelled if it was stopped; `rows` then has the rows measured so far.
  Status run_all(std::vector<LoadRow>* rows) {
    FORERUN_RETURN_IF_ERROR(warm_up());
    for (const float temperature : options_.temperatures) {
      plain_tokens_.clear();
      for (const int concurrency : options_.concurrencies) {
        FORERUN_RETURN_IF_ERROR(run_strategies(temperature, concurrency, rows));
      }
    }
    return Status();
  }

  int requests_at(int concurrency) const {
    return options_.requests > 0 ? options_.requests : concurrency;
  }

  Pass pass_of(const std::string& strategy, float temperature, int concurrency,
               const Arrivals& arrivals) const {
    Pass pass;
    pass.strategy = strategy;
    pass.temperature = temperature;
    pass.requests = requests_at(concurrency);
    pass.concurrency = concurrency;
    pass.arrivals = arrivals;
    pass.max_new_tokens = options_.max_new_tokens;
    return pass;
  }

  Request request_for(const Pass& pass, size_t index) const {
    Request request;
    request.prompt_tokens = options_.prompts[index % options_.prompts.size()];
    request.sampling = options_.sampling;
    request.sampling.temperature = pass.temperature;
    request.sampling.seed = options_.first_seed + index;
    request.max_new_tokens = pass.max_new_tokens;
    request.ignore_eos = true;
    request.share_prefix = options_.reuse_prompts;
    request.speculation = options_for(pass.strategy, options_.speculation);
    return request;
  }

  Status warm_up() {
    for (int index = 0; index < options_.warmups; ++index) {
      Pass pass;
      pass.strategy = options_.strategies[static_cast<size_t>(index) % options_.strategies.size()];
      pass.requests = 1;
      pass.max_new_tokens = std::min(options_.max_new_tokens, kWarmupTokens);
      pass.counts = false;
      const auto records = run_pass(pass);
      if (!records.ok()) return records.status();
    }
    return Status();
  }

  // Appends a row per strategy; they take turns, so that a drift of the machine's speed affects
  // them equally.
  Status run_strategies(float temperature, int concurrency, std::vector<LoadRow>* rows) {
    std::vector<Best> best;
    const Status measured = measure_strategies(temperature, concurrency, &best);
    if (best.empty() || (!measured.ok() && measured.code() != StatusCode::kCancelled)) {
      return measured;
    }
    const LoadRow baseline = best.front().row;
    Status compared;
    if (options_.compare) compared = learn_plain_tokens(temperature, concurrency, best.front());
    if (!compared.ok() && compared.code() != StatusCode::kCancelled) return compared;
    for (Best& each : best) {
      LoadRow& row = each.row;
      row.ratio_to_baseline = row.output_tokens_per_s / baseline.output_tokens_per_s;
      if (row.decoding_tokens_per_s && baseline.decoding_tokens_per_s) {
        row.decoding_ratio_to_baseline =
            *row.decoding_tokens_per_s / *baseline.decoding_tokens_per_s;
      }
      if (options_.compare && compared.ok()) row.identical = count_identical(each.records);
      rows->push_back(row);
    }
    return measured.ok() ? compared : measured;
  }

  // Returns each strategy's best pass; fewer if it was stopped.
  Status measure_strategies(float temperature, int concurrency, std::vector<Best>* best) {
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      for (size_t idx = 0; idx < options_.strategies.size(); ++idx) {
        const Pass pass =
            pass_of(options_.strategies[idx], temperature, concurrency, options_.arrivals);
        if (options_.host_time) engine_.take_trace();
        FORERUN_ASSIGN_OR_RETURN(std::vector<RequestRecord> records, run_pass(pass));
        LoadRow row = summarize_load(records, pass.at_once());
        if (options_.host_time) row.host = host_time_of(engine_.take_trace());
        row.strategy = pass.strategy;
        row.temperature = temperature;
        row.concurrency = concurrency;
        if (repeat == 0) {
          best->push_back({std::move(row), std::move(records)});
        } else if (row.output_tokens_per_s > (*best)[idx].row.output_tokens_per_s) {
          (*best)[idx] = {std::move(row), std::move(records)};
        }
      }
    }
    return Status();
  }

  // Decodes every request of this load plainly. Tokens that an earlier, smaller load decoded stay,
  // so that later loads are compared with requests that ran with fewer others.
  Status learn_plain_tokens(float temperature, int concurrency, const Best& first) {
    if (first.row.strategy == kPlain) {
      for (size_t index = 0; index < first.records.size(); ++index) {
        plain_tokens_.try_emplace(index, first.records[index].tokens);
      }
    }
    if (static_cast<int>(plain_tokens_.size()) >= requests_at(concurrency)) return Status();
    Pass pass = pass_of(kPlain, temperature, concurrency, Arrivals());
    pass.counts = false;
    FORERUN_ASSIGN_OR_RETURN(const std::vector<RequestRecord> records, run_pass(pass));
    for (size_t index = 0; index < records.size(); ++index) {
      plain_tokens_.try_emplace(index, records[index].tokens);
    }
    return Status();
  }

  int count_identical(const std::vector<RequestRecord>& records) const {
    int identical = 0;
    for (size_t index = 0; index < records.size(); ++index) {
      identical += records[index].tokens == plain_tokens_.at(index) ? 1 : 0;
    }
    return identical;
  }

  // Returns the readers' records of all requests, in the order of the requests.
  Result<std::vector<RequestRecord>> run_pass(const Pass& pass) {
    std::vector<RequestRecord> records(static_cast<size_t>(pass.requests));
    const std::vector<double> due =
        arrival_seconds(pass.arrivals, pass.requests, options_.first_seed);
    const int limit = pass.at_once();
    const double start_s = now_s();
    FORERUN_ASSIGN_OR_RETURN(TimedQueue queue, TimedQueue::create(options_.stop));
    Status failure;
    int submitted = 0, running = 0;
    while (running > 0 || (failure.ok() && submitted < pass.requests)) {
      if (failure.ok()) failure = queue.stop_status();
      const bool may_submit = failure.ok() && submitted < pass.requests && running < limit;
      const double due_s =
          may_submit ? start_s + due[static_cast<size_t>(submitted)] : TimedQueue::kNever;
      Status status;
      if (may_submit && now_s() >= due_s) {
        const auto index = static_cast<size_t>(submitted);
        records[index].due_s = due_s;
        records[index].submitted_s = now_s();
        status = queue.submit(engine_, request_for(pass, index), index);
        if (status.ok()) ++running;
        ++submitted;
      } else if (std::optional<TimedEvent> read = queue.next(due_s)) {
        if (read->event.finished) {
          --running;
          if (pass.counts) report();
        }
        status = record_event(*std::move(read), &records);
      }
      if (status.ok() || !failure.ok()) continue;
      failure = status;
      queue.cancel_all();
    }
    if (!failure.ok()) return failure;
    return records;
  }

  static Status record_event(TimedEvent read, std::vector<RequestRecord>* records) {
    RequestRecord& record = (*records)[read.request];
    Event& event = read.event;
    if (!event.tokens.empty()) {
      record.arrivals.push_back({read.s, static_cast<int32_t>(event.tokens.size())});
      record.tokens.insert(record.tokens.end(), event.tokens.begin(), event.tokens.end());
    }
    if (!event.finished) return Status();
    record.finished_s = read.s;
    record.stats = std::move(event.stats);
    return event.reason == FinishReason::kError ? event.error : Status();
  }

  void report() {
    if (options_.on_progress) options_.on_progress(++done_, total_);
  }

  Engine& engine_;
  const LoadOptions& options_;
  // One entry per request, of one temperature.
  std::map<size_t, std::vector<int32_t>> plain_tokens_;
  int total_ = 0;  // requests that count
  int done_ = 0;
};

}  // namespace

Result<std::vector<LoadRow>> run_load(Engine& engine, const LoadOptions& options) {
  return LoadRun(engine, options).run();
}

}  // namespace forerun::bench
