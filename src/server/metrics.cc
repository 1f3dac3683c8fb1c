#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>
#include <vector>

namespace forerun::server {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

namespace {

// Buckets from 1 ms to a minute, about half a decade each.
const Histogram::BucketBoundaries kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                              0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
const Histogram::BucketBoundaries kTokenSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5};
const Histogram::BucketBoundaries kTokensAStep = {1.0, 1.25, 1.5, 1.75, 2.0,
                                                  2.5, 3.0,  4.0, 6.0,  8.0};

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  Family<Counter>& answers =
      counter("forerun_http_responses_total", "HTTP responses by route and status");
  Family<Counter>& ended = counter("forerun_requests_total", "Generations that ended, by reason");
  Histogram& first_token = histogram("forerun_time_to_first_token_seconds",
                                     "From submission to the first token", kSeconds);
  Histogram& between_tokens = histogram("forerun_inter_token_seconds",
                                        "Time between output tokens of a request", kTokenSeconds);
  Histogram& end_to_end =
      histogram("forerun_request_seconds", "From a request's arrival to its last token", kSeconds);
  Histogram& tokens_a_step =
      histogram("forerun_tokens_per_target_step", "Output tokens a Step of the target, by request",
                kTokensAStep);
  Gauge& running = gauge("forerun_running_requests", "Requests that are being decoded");
  Gauge& waiting = gauge("forerun_waiting_requests", "Requests that wait for their turn");
  Gauge& connections = gauge("forerun_http_connections", "Open connections");
  Gauge& output_rate =
      gauge("forerun_output_tokens_per_second", "Output tokens a second over the last ten seconds");
  Gauge& prompt_rate = gauge("forerun_prompt_tokens_per_second",
                             "Computed prompt tokens a second over the last ten seconds");
  Family<Gauge>& kv_used = family("forerun_kv_blocks_used", "KV blocks held by running requests");
  Family<Gauge>& kv_total = family("forerun_kv_blocks_total", "KV blocks in all");
  Family<Counter>& tokens = counter("forerun_tokens_total", "Tokens by kind");
  Family<Counter>& speculation =
      counter("forerun_speculation_tokens_total", "Tokens by strategy: output, drafted, accepted");
  Family<Counter>& steps =
      counter("forerun_target_steps_total", "Steps of the target after the prompt, by strategy");
  Counter& preemptions =
      counter("forerun_preemptions_total",
              "Preemptions, for lack of KV memory or for a request of higher priority")
          .Add({});
  std::mutex scrape;  // only one scrape at a time copies the engine's counters

  Family<Counter>& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry);
  }
  Family<Gauge>& family(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry);
  }
  Gauge& gauge(const char* name, const char* help) { return family(name, help).Add({}); }
  Histogram& histogram(const char* name, const char* help,
                       const Histogram::BucketBoundaries& bounds) {
    return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
  }
};

namespace {

void raise_to(Counter& counter, int64_t total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Increment(more);
}

}  // namespace

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count_answer(const std::string& route, int status) {
  impl_->answers.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::observe_tokens(double seconds, size_t tokens) {
  for (size_t idx = 0; idx < tokens; ++idx) {
    impl_->between_tokens.Observe(seconds / static_cast<double>(tokens));
  }
}

void Metrics::observe_end(const RequestStats& stats, FinishReason reason, double seconds) {
  impl_->ended.Add({{"reason", finish_reason_name(reason)}}).Increment();
  impl_->end_to_end.Observe(seconds);
  if (stats.time_to_first_token_s > 0) impl_->first_token.Observe(stats.time_to_first_token_s);
  if (stats.tokens_per_step() > 0) impl_->tokens_a_step.Observe(stats.tokens_per_step());
}

std::string Metrics::text(const EngineLoad& load, int connections) {
  const std::lock_guard lock(impl_->scrape);
  impl_->running.Set(load.running_requests);
  impl_->waiting.Set(load.waiting_requests);
  impl_->connections.Set(connections);
  impl_->output_rate.Set(load.output_tokens_per_s);
  impl_->prompt_rate.Set(load.prompt_tokens_per_s);
  for (const auto& [model, kv] :
       {std::pair("target", load.target_kv), std::pair("draft", load.draft_kv)}) {
    impl_->kv_used.Add({{"model", model}}).Set(static_cast<double>(kv.used_blocks));
    impl_->kv_total.Add({{"model", model}}).Set(static_cast<double>(kv.total_blocks));
  }
  raise_to(impl_->tokens.Add({{"kind", "output"}}), load.output_tokens);
  raise_to(impl_->tokens.Add({{"kind", "prompt"}}), load.prompt_tokens);
  raise_to(impl_->tokens.Add({{"kind", "prompt_reused"}}), load.reused_prompt_tokens);
  raise_to(impl_->preemptions, load.preemptions);
  for (const StrategyLoad& each : load.strategies) {
    const auto of = [&](const char* kind) -> Counter& {
      return impl_->speculation.Add({{"strategy", each.strategy}, {"kind", kind}});
    };
    raise_to(of("output"), each.output_tokens);
    raise_to(of("drafted"), each.drafted_tokens);
    raise_to(of("accepted"), each.accepted_tokens);
    raise_to(impl_->steps.Add({{"strategy", each.strategy}}), each.target_steps);
  }
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace forerun::server
