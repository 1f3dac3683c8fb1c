// Submits requests to an EngineLoop without an engine around it. Requests without speculation
// options are decoded plainly.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/loop/engine_loop.h"
#include "engine/loop/request_handles.h"
#include "engine/submit/submission.h"
#include "strategies/speculation_plan.h"
#include "text/tokenizer.h"

namespace forerun::testing {

inline std::shared_ptr<RequestChannel> open_channel(EngineLoop& loop,
                                                    std::shared_ptr<EventQueue> queue,
                                                    uint64_t tag) {
  return RequestChannel::open(std::move(queue), tag, /*num_samples=*/1,
                              {[waker = loop.waker()] { waker->wake(); }, {}});
}

inline void submit_to_loop(EngineLoop& loop, Request request, const Tokenizer& tokenizer,
                           std::shared_ptr<RequestChannel> channel, const ModelFacts& models = {},
                           std::shared_ptr<const TokenConstraint> constraint = nullptr) {
  SamplingParams sampling = resolve_sampling(request.sampling, {}, 0);
  const SpeculationOptions speculation =
      request.speculation.value_or(SpeculationOptions{.strategy = "autoregressive"});
  auto plan = resolve_speculation(speculation, models);
  auto active = std::make_unique<ActiveRequest>(std::move(request), std::move(sampling),
                                                std::move(constraint), std::move(plan).value(),
                                                tokenizer, std::vector<int32_t>{});
  active->connect(std::make_shared<EventStream>(std::move(channel), 0));
  loop.submit(std::move(active));
}

// Dropping what it returns cancels the request.
inline std::shared_ptr<RequestStream> submit_to_loop(
    EngineLoop& loop, Request request, const Tokenizer& tokenizer, const ModelFacts& models = {},
    std::shared_ptr<const TokenConstraint> constraint = nullptr) {
  auto channel = open_channel(loop, std::make_shared<EventQueue>(), 0);
  submit_to_loop(loop, std::move(request), tokenizer, channel, models, std::move(constraint));
  return std::make_shared<PulledRequest>(std::move(channel));
}

}  // namespace forerun::testing
