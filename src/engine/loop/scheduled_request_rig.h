// Helpers that the tests of the loop's parts share: requests without an engine, and an executor
// that computes nothing.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/loop/active_request.h"
#include "engine/loop/event_queue.h"
#include "engine/loop/request_handles.h"
#include "engine/loop/scheduled_request.h"
#include "exec/executor.h"
#include "forerun/request.h"
#include "strategies/speculation_plan.h"
#include "text/tokenizer.h"

namespace forerun::testing {

// Records which sequences are opened and closed. Its target has `target` blocks, its draft none.
class IdleExecutor : public Executor {
 public:
  Status open(SequenceId sequence, const SequenceSpec&) override {
    opened.push_back(sequence);
    return {};
  }
  void submit(WorkItem) override {}
  std::optional<WorkResult> next(std::chrono::microseconds) override { return std::nullopt; }
  std::optional<WorkResult> next_at_hand() override { return std::nullopt; }
  void set_meanwhile(Meanwhile) override {}
  void close(SequenceId sequence) override { closed.push_back(sequence); }
  KvUsage kv_usage(Role role) const override { return role == Role::kTarget ? target : KvUsage{}; }

  KvUsage target{.used_blocks = 0, .total_blocks = 1000, .block_bytes = 1};
  std::vector<SequenceId> opened, closed;
};

// Returns a tokenizer with the letters as tokens 0 to 3.
inline const Tokenizer& letters() {
  static const Tokenizer tokenizer = [] {
    auto loaded = Tokenizer::from_json(R"({
      "added_tokens": [], "normalizer": null, "post_processor": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "merges": []}})");
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return std::move(loaded).value();
  }();
  return tokenizer;
}

// A waiting request and its reader; dropping the reader cancels the request.
struct ReadRequest {
  std::unique_ptr<ActiveRequest> request;
  std::shared_ptr<PulledRequest> reader;

  ScheduledRequest scheduled(int32_t level = 0) {
    ScheduledRequest waits;
    waits.request = std::move(request);
    waits.level = level;
    return waits;
  }
};

inline ReadRequest make_request(Request request, SamplingParams sampling = {}) {
  auto plan = resolve_speculation(SpeculationOptions{.strategy = "autoregressive"});
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  auto channel = RequestChannel::open(std::make_shared<EventQueue>(), /*tag=*/0,
                                      /*num_samples=*/1, {.wake = [] {}, .resolve = {}});
  ReadRequest made;
  made.request = std::make_unique<ActiveRequest>(std::move(request), std::move(sampling),
                                                 /*constraint=*/nullptr, std::move(plan).value(),
                                                 letters(), std::vector<int32_t>{});
  made.request->connect(std::make_shared<EventStream>(channel, 0));
  made.reader = std::make_shared<PulledRequest>(std::move(channel));
  return made;
}

// Makes a request with `tokens` tokens.
inline ReadRequest make_request(size_t tokens, int32_t priority = 0) {
  Request request;
  request.prompt_tokens.assign(tokens, 1);
  request.priority = priority;
  return make_request(std::move(request));
}

}  // namespace forerun::testing
