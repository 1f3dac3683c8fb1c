#include "serving/load_run.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/status_macros.h"
#include "serving/idle_connections.h"
#include "serving/stream_connection.h"

namespace forerun::bench {

namespace asio = boost::asio;

namespace {

using Clock = StreamOutcome::Clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Makes the calls of a load, one after the other: chats and completions of several lengths, greedy
// and sampled.
class CallMaker {
 public:
  explicit CallMaker(const LoadOptions& options) : options_(options), random_(options.seed) {}

  StreamCall next() {
    const auto below = [this](uint64_t limit) { return random_() % limit; };
    const std::string& prompt = options_.prompts[below(options_.prompts.size())];
    const int32_t tokens = std::max(1, options_.max_tokens >> below(4));
    nlohmann::json body = {{"max_tokens", tokens},
                           {"stream", true},
                           {"stream_options", {{"include_usage", true}}},
                           {"ignore_eos", true},
                           {"temperature", below(2) == 0 ? 0.0 : 0.8},
                           {"seed", below(1u << 20)}};
    if (!options_.strategies.empty()) {
      body["strategy"] = options_.strategies[count_++ % options_.strategies.size()];
    }
    StreamCall call;
    if (below(2) == 0) {
      call.path = "/v1/completions";
      body["prompt"] = prompt;
    } else {
      call.path = "/v1/chat/completions";
      body["messages"] = {{{"role", "user"}, {"content", prompt}}};
    }
    call.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const bool leaves = static_cast<double>(below(1u << 20)) < options_.leave_share * (1u << 20);
    if (leaves) call.leave_after_events = static_cast<int32_t>(1 + below(tokens));
    return call;
  }

 private:
  const LoadOptions& options_;
  std::mt19937_64 random_;
  uint64_t count_ = 0;
};

class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const asio::ip::tcp::endpoint& server)
      : options_(options), calls_(options), sweeper_(context_), arriver_(context_) {
    for (int32_t idx = 0; idx < options.streams; ++idx) {
      connections_.push_back(
          std::make_shared<StreamConnection>(context_, server, options.reads_stamps));
    }
  }

  LoadReport run() {
    start_ = Clock::now();
    const CpuTime before = cpu();
    if (options_.arrivals.kind == Arrivals::Kind::kAll) {
      for (const auto& connection : connections_) call(connection);
    } else {
      const double mean = options_.seconds / options_.arrivals.mean_gap_s;
      arrivals_ =
          arrival_seconds(options_.arrivals, static_cast<int>(2 * mean) + 100, options_.seed);
      free_.assign(connections_.begin(), connections_.end());
      wait_for_arrival();
    }
    sweep();
    context_.run();
    const CpuTime after = cpu();
    report_.server_cpu = {after.all_s - before.all_s, after.thread_s - before.thread_s};
    report_.seconds = seconds_between(start_, Clock::now());
    return std::move(report_);
  }

 private:
  using ConnectionPtr = std::shared_ptr<StreamConnection>;

  CpuTime cpu() const {
    return options_.server_process > 0
               ? cpu_time_of(options_.server_process, options_.engine_thread)
               : CpuTime{};
  }
  bool is_over() const { return seconds_between(start_, Clock::now()) >= options_.seconds; }

  void call(const ConnectionPtr& connection) {
    report_.most_at_once = std::max(report_.most_at_once, ++at_once_);
    connection->start(calls_.next(), [this, connection](StreamOutcome outcome) {
      --at_once_;
      note(outcome);
      const auto wait = outcome.kind == StreamOutcome::Kind::kRefused ? outcome.retry_after
                                                                      : std::chrono::seconds(0);
      go_on(connection, wait);
    });
  }

  // Must not be called from within the connection's own call.
  void go_on(const ConnectionPtr& connection, std::chrono::seconds wait) {
    if (options_.arrivals.kind != Arrivals::Kind::kAll) {
      free_.push_back(connection);
      return serve_backlog();
    }
    if (is_over()) return;
    auto timer = std::make_shared<asio::steady_timer>(context_, wait);
    timer->async_wait([this, timer, connection](const boost::system::error_code&) {
      if (!is_over()) call(connection);
    });
  }

  void wait_for_arrival() {
    if (next_arrival_ == arrivals_.size()) return;
    const double due_s = arrivals_[next_arrival_++];
    if (due_s >= options_.seconds) return;
    arriver_.expires_at(start_ + duration_of(due_s));
    arriver_.async_wait([this](const boost::system::error_code&) {
      backlog_.push_back(arriver_.expiry());
      serve_backlog();
      wait_for_arrival();
    });
  }

  void serve_backlog() {
    while (!backlog_.empty() && !free_.empty()) {
      report_.longest_wait_s =
          std::max(report_.longest_wait_s, seconds_between(backlog_.front(), Clock::now()));
      backlog_.pop_front();
      const ConnectionPtr connection = std::move(free_.back());
      free_.pop_back();
      asio::post(context_, [this, connection] { call(connection); });
    }
  }

  void sweep() {
    const Clock::time_point now = Clock::now();
    if (options_.server_process > 0) {
      report_.memory.push_back(
          {seconds_between(start_, now), resident_mib_of(options_.server_process)});
    }
    for (const auto& connection : connections_) {
      connection->check_silence(now - duration_of(options_.silence_seconds));
    }
    if (is_over() && at_once_ == 0 && backlog_.empty()) return;
    sweeper_.expires_after(duration_of(options_.sample_seconds));
    sweeper_.async_wait([this](const boost::system::error_code&) { sweep(); });
  }

  void note(const StreamOutcome& outcome) {
    switch (outcome.kind) {
      case StreamOutcome::Kind::kComplete:
        ++report_.complete;
        report_.output_tokens += outcome.output_tokens;
        break;
      case StreamOutcome::Kind::kRefused:
        ++report_.refused;
        return;
      case StreamOutcome::Kind::kLeft:
        ++report_.left;
        break;
      case StreamOutcome::Kind::kFailed:
        ++report_.failed;
        ++report_.failures[outcome.failure];
        break;
    }
    const auto& events = outcome.events;
    report_.events += static_cast<int64_t>(events.size());
    if (!events.empty()) report_.first_token.add(seconds_between(outcome.sent, events.front()));
    for (size_t idx = 1; idx < events.size(); ++idx) {
      report_.between_events.add(seconds_between(events[idx - 1], events[idx]));
    }
    const auto& stamps = outcome.stamps;
    for (size_t idx = 0; idx < stamps.size(); ++idx) {
      report_.delivery.add(seconds_between(stamps[idx], events[idx]));
      if (idx > 0) report_.between_stamps.add(seconds_between(stamps[idx - 1], stamps[idx]));
    }
  }

  const LoadOptions& options_;
  asio::io_context context_{1};
  CallMaker calls_;
  LoadReport report_;
  std::vector<ConnectionPtr> connections_, free_;
  int32_t at_once_ = 0;
  Clock::time_point start_;
  asio::steady_timer sweeper_, arriver_;
  std::vector<double> arrivals_;
  size_t next_arrival_ = 0;
  std::deque<Clock::time_point> backlog_;
};

}  // namespace

Result<LoadReport> run_load(const LoadOptions& options) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) {
    return Status(StatusCode::kInvalidArgument,
                  "host: found '" + options.host + "'; accepted: an IPv4 address");
  }
  FORERUN_ASSIGN_OR_RETURN(
      const IdleConnections idle,
      IdleConnections::open(options.host, options.port, options.idle_connections));
  LoadReport report = LoadRun(options, {address, options.port}).run();
  report.idle_opened = idle.count();
  report.idle_lost = idle.count_lost();
  return report;
}

}  // namespace forerun::bench
