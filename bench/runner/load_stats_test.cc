#include "runner/load_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "runner/long_prompt.h"
#include "runner/workload.h"

namespace forerun::bench {
namespace {

// Makes a record of a request submitted at `submitted_s`; it ends with the last of the given
// tokens.
RequestRecord record_of(double submitted_s, std::vector<TokensAt> arrivals) {
  RequestRecord record;
  record.due_s = record.submitted_s = submitted_s;
  record.finished_s = arrivals.back().s;
  for (const TokensAt& arrival : arrivals) record.stats.output_tokens += arrival.tokens;
  record.stats.prompt_tokens = 10;
  record.arrivals = std::move(arrivals);
  return record;
}

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Percentile, IsTheNearestRank) {
  std::vector<double> hundred;
  for (int value = 100; value >= 1; --value) hundred.push_back(value);
  EXPECT_EQ(percentile(hundred, 0.50), 50);
  EXPECT_EQ(percentile(hundred, 0.95), 95);
  EXPECT_EQ(percentile(hundred, 0.99), 99);
  EXPECT_EQ(percentile(hundred, 1.0), 100);
  EXPECT_EQ(percentile(hundred, 0.0), 1);
  EXPECT_EQ(percentile({7, 3}, 0.5), 3);
  EXPECT_EQ(percentile({7, 3}, 0.51), 7);
  EXPECT_EQ(percentile({5}, 0.99), 5);
  EXPECT_EQ(percentile({}, 0.99), 0);
}

TEST(Spread, HasTheMeanAndTheLargest) {
  const Spread spread = spread_of({1, 2, 9});
  EXPECT_EQ(spread.mean, 4);
  EXPECT_EQ(spread.p50, 2);
  EXPECT_EQ(spread.p99, 9);
  EXPECT_EQ(spread.max, 9);
  EXPECT_EQ(spread_of({}).max, 0);
}

TEST(Between, TokensOfOneEventShareItsTime) {
  const std::vector<RequestRecord> records = {record_of(0, {{1, 1}, {3, 3}, {4, 1}}),
                                              record_of(0, {{2, 1}})};
  EXPECT_EQ(sorted(seconds_between_events(records)), (std::vector<double>{1, 2}));
  EXPECT_EQ(sorted(seconds_between_tokens(records)), (std::vector<double>{0, 0, 1, 2}));
}

TEST(Between, TheFirstEventsTokensCountToo) {
  const std::vector<RequestRecord> records = {record_of(0, {{1, 2}, {2, 1}})};
  EXPECT_EQ(sorted(seconds_between_tokens(records)), (std::vector<double>{0, 1}));
}

TEST(Decoding, CountsOnlyWhileAllDecode) {
  // Both decode from 2 to 5; the first token of the second, at 2, belongs to the time before.
  const std::vector<RequestRecord> records = {record_of(0, {{1, 1}, {2, 1}, {3, 4}, {5, 1}}),
                                              record_of(0, {{2, 1}, {4, 2}, {6, 1}, {9, 1}})};
  const DecodingWindow both = window_of_decoding(records, 2);
  EXPECT_DOUBLE_EQ(both.seconds, 3);
  EXPECT_EQ(both.tokens, 4 + 2 + 1);
  const DecodingWindow any_decodes = window_of_decoding(records, 1);
  EXPECT_DOUBLE_EQ(any_decodes.seconds, 8);
  EXPECT_EQ(any_decodes.tokens, 1 + 4 + 2 + 1 + 1 + 1);
  EXPECT_EQ(window_of_decoding(records, 3).seconds, 0);
}

TEST(Decoding, MayComeInSeveralParts) {
  // Two of three at once: from 1 to 3 and from 4 to 6.
  const std::vector<RequestRecord> records = {record_of(0, {{1, 1}, {3, 5}}),
                                              record_of(0, {{1, 1}, {2, 1}, {6, 7}}),
                                              record_of(3, {{4, 1}, {5, 2}, {7, 1}})};
  const DecodingWindow two = window_of_decoding(records, 2);
  EXPECT_DOUBLE_EQ(two.seconds, 4);
  EXPECT_EQ(two.tokens, 1 + 5 + 2 + 7);
}

TEST(Summary, OfALoad) {
  std::vector<RequestRecord> records = {record_of(1, {{2, 1}, {4, 3}}),
                                        record_of(2, {{4, 1}, {6, 1}, {11, 1}})};
  records[1].due_s = 1.5;
  records[0].stats.target_steps = 1;
  records[1].stats.target_steps = 2;
  records[0].stats.drafted_tokens = 4;
  records[0].stats.accepted_tokens = 2;
  records[1].stats.drafted_tokens = 4;
  records[1].stats.preemptions = 3;
  const LoadRow row = summarize_load(records, 2);
  EXPECT_EQ(row.requests, 2);
  EXPECT_EQ(row.prompt_tokens, 20);
  EXPECT_EQ(row.output_tokens, 7);
  EXPECT_DOUBLE_EQ(row.window_s, 10);
  EXPECT_DOUBLE_EQ(row.output_tokens_per_s, 0.7);
  EXPECT_FALSE(row.decoding_tokens_per_s);  // the first ends as the second begins
  EXPECT_EQ(row.first_token_s.p50, 1);
  EXPECT_EQ(row.first_token_s.p99, 2);
  EXPECT_EQ(row.between_events_s.max, 5);
  EXPECT_EQ(row.between_tokens_s.mean, 9.0 / 5);
  EXPECT_DOUBLE_EQ(row.tokens_per_step, 5.0 / 3);
  EXPECT_DOUBLE_EQ(row.acceptance, 0.25);
  EXPECT_EQ(row.preemptions, 3);
  EXPECT_DOUBLE_EQ(row.late_s, 0.5);
  EXPECT_DOUBLE_EQ(*summarize_load(records, 1).decoding_tokens_per_s, (3 + 1 + 1) / 9.0);
}

TEST(Summary, RequestsWithoutTokensCostTimeOnly) {
  std::vector<RequestRecord> records = {record_of(0, {{1, 1}, {2, 1}}), RequestRecord()};
  records[1].submitted_s = 1;
  records[1].finished_s = 4;
  const LoadRow row = summarize_load(records, 1);
  EXPECT_DOUBLE_EQ(row.output_tokens_per_s, 0.5);
  EXPECT_EQ(row.first_token_s.max, 3);
  EXPECT_DOUBLE_EQ(*row.decoding_tokens_per_s, 1);
}

TEST(HostTime, IsSharedByTheResults) {
  Trace trace;
  trace.steps.resize(2);
  trace.steps[0].host_cpu_ns = 6'000;
  trace.steps[0].items.resize(3);
  trace.steps[1].host_cpu_ns = 2'000;
  trace.steps[1].items.resize(1);
  trace.turns.resize(4);
  for (TraceTurn& turn : trace.turns) turn.cpu_ns = 5'000;
  const HostTime host = host_time_of(trace);
  EXPECT_EQ(host.results, 4);
  EXPECT_DOUBLE_EQ(host.step_us, 2);
  EXPECT_DOUBLE_EQ(host.turn_us, 5);
  EXPECT_EQ(host_time_of(Trace()).turn_us, 0);
}

TEST(HostTime, IdleIsWhatNoStepFills) {
  Trace trace;
  for (const auto& [start, end] :
       std::vector<std::pair<int64_t, int64_t>>{{9'000, 12'000}, {1'000, 4'000}, {3'000, 7'000}}) {
    trace.steps.emplace_back();
    trace.steps.back().start_ns = start;
    trace.steps.back().end_ns = end;
  }
  const Spread idle_us = host_time_of(trace).idle_us;
  EXPECT_DOUBLE_EQ(idle_us.max, 2);  // from 7 to 9; the second begins while the first runs
  EXPECT_DOUBLE_EQ(idle_us.mean, 1);
}

TEST(Gaps, ThatOverlapAnInterval) {
  const RequestRecord record = record_of(0, {{1, 1}, {2, 1}, {4, 3}, {5, 1}, {9, 1}});
  EXPECT_EQ(gaps_within(record, 3, 4.5, false), (std::vector<double>{2, 1}));
  EXPECT_EQ(gaps_within(record, 3, 4.5, true), (std::vector<double>{2, 0, 0, 1}));
  // Others only touch the interval.
  EXPECT_EQ(gaps_within(record, 2, 4, false), (std::vector<double>{2}));
  EXPECT_TRUE(gaps_within(record, 9, 12, false).empty());
}

TEST(Prompts, OfALengthAreAllDifferent) {
  const std::vector<std::vector<int32_t>> texts = {{1, 2, 3}, {4, 5}};
  EXPECT_EQ(prompts_of_length(texts, 2, 4),
            (std::vector<std::vector<int32_t>>{{1, 2, 3, 4}, {4, 5, 1, 2}}));
  EXPECT_EQ(prompts_of_length(texts, 1, 7).front(), (std::vector<int32_t>{1, 2, 3, 4, 5, 1, 2}));
  std::vector<std::vector<int32_t>> long_texts(8);
  for (int32_t token = 0; token < 400; ++token) {
    long_texts[static_cast<size_t>(token / 50)].push_back(token);
  }
  std::vector<std::vector<int32_t>> many = prompts_of_length(long_texts, 64, 32);
  std::sort(many.begin(), many.end());
  EXPECT_EQ(std::adjacent_find(many.begin(), many.end()), many.end());
  for (const auto& prompt : many) EXPECT_EQ(prompt.size(), 32u);
}

}  // namespace
}  // namespace forerun::bench
