// Puts a load on a server of OpenAI's API: streams that arrive at given times or one after the
// other, together with thousands of idle connections. Reports how the calls ended, the times to the
// first token and between tokens as clients see them, and, for a server on this machine, its
// processor time and memory.
//
//   http_load --port 8080 --streams 256 --seconds 600 --idle 10000 --prompts prompts.jsonl
//             --server-process PID --json load.json
//
// With a null engine (null_server) `--stamps` reads its times from the texts, and the processor
// time of its thread is reported separately from the server's. docs/measuring-load.md explains each
// figure.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runner/machine.h"
#include "runner/workload.h"
#include "serving/load_run.h"
#include "serving/null_engine.h"

namespace forerun::bench {
namespace {

struct Arguments {
  LoadOptions load;
  std::string arrivals = "all";
  std::vector<std::string> prompt_files;
  double warm_up_seconds = 30.0;
  std::string json;
};

double per(double whole, int64_t count) {
  return count > 0 ? whole / static_cast<double>(count) : 0.0;
}

nlohmann::json times_json(const TimeHistogram& times) {
  return {{"count", times.count()},
          {"p50_ms", 1e3 * times.percentile(0.5)},
          {"p95_ms", 1e3 * times.percentile(0.95)},
          {"p99_ms", 1e3 * times.percentile(0.99)},
          {"max_ms", 1e3 * times.max_s()}};
}

void print_times(const char* name, const TimeHistogram& times) {
  if (times.count() == 0) return;
  const double p50 = times.percentile(0.5), p99 = times.percentile(0.99);
  std::printf("%-30s %10.3f %10.3f %10.3f %10.3f %8.2f\n", name, 1e3 * p50,
              1e3 * times.percentile(0.95), 1e3 * p99, 1e3 * times.max_s(),
              p50 > 0 ? p99 / p50 : 0.0);
}

// Returns the smallest and the largest memory after the warm-up.
std::pair<double, double> memory_range(const LoadReport& report, double warm_up_s) {
  std::pair<double, double> range{0.0, 0.0};
  for (const MemorySample& sample : report.memory) {
    if (sample.s < warm_up_s || sample.mib == 0.0) continue;
    if (range.first == 0.0) range = {sample.mib, sample.mib};
    range = {std::min(range.first, sample.mib), std::max(range.second, sample.mib)};
  }
  return range;
}

void print_memory(const LoadReport& report, double warm_up_s) {
  constexpr size_t kRows = 20;
  const size_t every = report.memory.size() / kRows + 1;
  std::printf("\nresident memory, MiB\n");
  for (size_t idx = 0; idx < report.memory.size(); idx += every) {
    std::printf("  %6.0f s %10.1f\n", report.memory[idx].s, report.memory[idx].mib);
  }
  const auto [least, most] = memory_range(report, warm_up_s);
  std::printf("  after %.0f s: %.1f to %.1f\n", warm_up_s, least, most);
}

void print(const LoadReport& report, const Arguments& arguments) {
  std::printf(
      "%.1f s, at most %d streams at once: %lld complete, %lld refused with 429, %lld left, "
      "%lld failed\n",
      report.seconds, report.most_at_once, static_cast<long long>(report.complete),
      static_cast<long long>(report.refused), static_cast<long long>(report.left),
      static_cast<long long>(report.failed));
  for (const auto& [failure, count] : report.failures) {
    std::printf("  %lld x %s\n", static_cast<long long>(count), failure.c_str());
  }
  std::printf("%lld events, %lld tokens of complete calls; idle connections: %d, lost %d\n\n",
              static_cast<long long>(report.events), static_cast<long long>(report.output_tokens),
              report.idle_opened, report.idle_lost);
  std::printf("%-30s %10s %10s %10s %10s %8s\n", "ms", "p50", "p95", "p99", "max", "p99/p50");
  print_times("first token", report.first_token);
  print_times("between events", report.between_events);
  print_times("between the engine's stamps", report.between_stamps);
  print_times("from stamp to client", report.delivery);
  if (arguments.load.server_process == 0) return;
  const double server_s = report.server_cpu.all_s - report.server_cpu.thread_s;
  std::printf(
      "\nprocessor time of the server's process: %.2f s, of it the null engine's %.2f s; the "
      "rest is %.2f us an event\n",
      report.server_cpu.all_s, report.server_cpu.thread_s, 1e6 * per(server_s, report.events));
  print_memory(report, arguments.warm_up_seconds);
}

nlohmann::json report_json(const LoadReport& report, const Arguments& arguments,
                           const std::pair<double, double>& load_averages) {
  const MachineFacts machine = machine_facts();
  const auto [least, most] = memory_range(report, arguments.warm_up_seconds);
  nlohmann::json memory = nlohmann::json::array();
  for (const MemorySample& sample : report.memory) memory.push_back({sample.s, sample.mib});
  return {{"machine", {{"processor", machine.processor}, {"cores", machine.cores}}},
          {"date", machine.date},
          {"commit", machine.commit},
          {"load_average", {{"before", load_averages.first}, {"after", load_averages.second}}},
          {"streams", arguments.load.streams},
          {"arrivals", arguments.arrivals},
          {"seconds", report.seconds},
          {"calls",
           {{"complete", report.complete},
            {"refused_429", report.refused},
            {"left", report.left},
            {"failed", report.failed},
            {"failures", report.failures},
            {"most_at_once", report.most_at_once},
            {"longest_wait_s", report.longest_wait_s}}},
          {"idle_connections", {{"opened", report.idle_opened}, {"lost", report.idle_lost}}},
          {"events", report.events},
          {"output_tokens", report.output_tokens},
          {"first_token", times_json(report.first_token)},
          {"between_events", times_json(report.between_events)},
          {"between_stamps", times_json(report.between_stamps)},
          {"stamp_to_client", times_json(report.delivery)},
          {"server_cpu",
           {{"all_s", report.server_cpu.all_s},
            {"engine_thread_s", report.server_cpu.thread_s},
            {"server_us_an_event",
             1e6 * per(report.server_cpu.all_s - report.server_cpu.thread_s, report.events)}}},
          {"memory_mib",
           {{"after_s", arguments.warm_up_seconds},
            {"least", least},
            {"most", most},
            {"samples", std::move(memory)}}}};
}

Status run(Arguments arguments) {
  FORERUN_ASSIGN_OR_RETURN(arguments.load.arrivals, parse_arrivals(arguments.arrivals));
  for (const std::string& path : arguments.prompt_files) {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, read_prompts(path, 0));
    arguments.load.prompts.insert(arguments.load.prompts.end(), prompts.begin(), prompts.end());
  }
  if (arguments.load.prompts.empty()) arguments.load.prompts = {"def read_lines(path):\n"};
  arguments.load.engine_thread = NullEngine::kThreadName;
  const double before = load_average();
  FORERUN_ASSIGN_OR_RETURN(const LoadReport report, run_load(arguments.load));
  print(report, arguments);
  if (!arguments.json.empty()) {
    std::ofstream file(arguments.json);
    file << report_json(report, arguments, {before, load_average()}).dump(1) << "\n";
    if (!file) {
      return Status(StatusCode::kInvalidArgument, "--json " + arguments.json + ": not writable");
    }
  }
  if (report.failed == 0 && report.idle_lost == 0) return {};
  return {StatusCode::kInternal, "calls failed or idle connections were lost"};
}

void add_flags(CLI::App& app, Arguments& arguments) {
  LoadOptions& load = arguments.load;
  app.add_option("--host", load.host, "The server's IPv4 address")->capture_default_str();
  app.add_option("--port", load.port)->capture_default_str();
  app.add_option("--streams", load.streams, "Most calls at a time")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option(
         "--arrivals", arguments.arrivals,
         "all: as one call ends the next one goes. poisson:RATE or every:SECONDS: they come "
         "by themselves")
      ->capture_default_str();
  app.add_option("--idle", load.idle_connections, "Connections that are held and do nothing")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--seconds", load.seconds, "For which calls begin")
      ->check(CLI::Range(0.1, 86'400.0))
      ->capture_default_str();
  app.add_option("--silence-seconds", load.silence_seconds,
                 "A call of which nothing comes for so long has failed")
      ->capture_default_str();
  app.add_option("--prompts", arguments.prompt_files, "JSON lines with prompts, or several files");
  app.add_option("--strategies", load.strategies, "That calls ask for in turn (default: none)");
  app.add_option("--max-tokens", load.max_tokens, "Calls ask for an eighth of it up to all of it")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--leave", load.leave_share, "Share of calls whose clients leave in the middle")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", load.seed)->capture_default_str();
  app.add_flag("--stamps", load.reads_stamps, "The server is a null_server");
  app.add_option("--server-process", load.server_process,
                 "Its process on this machine, whose processor time and memory are read");
  app.add_option("--warm-up-seconds", arguments.warm_up_seconds,
                 "After which memory is held against itself")
      ->capture_default_str();
  app.add_option("--json", arguments.json, "File for the report");
}

}  // namespace
}  // namespace forerun::bench

int main(int argc, char** argv) {
  forerun::bench::Arguments arguments;
  CLI::App app("A load of streams on a server of OpenAI's API");
  forerun::bench::add_flags(app, arguments);
  CLI11_PARSE(app, argc, argv);
  const forerun::Status done = forerun::bench::run(std::move(arguments));
  if (!done.ok()) std::fprintf(stderr, "http_load: %s\n", done.message().c_str());
  return done.ok() ? 0 : 1;
}
