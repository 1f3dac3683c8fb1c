// Requests that speculate in a pipeline of stages, in virtual time: how long their readers wait
// between two tokens, beside plain decoding in the same stages.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "exec/emulated/stage_timeline.h"
#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "simulation/simulated_text.h"
#include "strategies/acceptance.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

constexpr int32_t kFreeRows = 64;

// Eight stages of 38 ms, as bench/profiles/specpipe.json has them: 64 rows are free, and 64 more
// take as long again. A pass lasts a quarter of a stage's time longer than its stages together.
StepProfile eight_stages() {
  StepProfile profile;
  profile.separate_devices = true;
  profile.stages = StageChain{
      .stages = 8, .layers = 1, .row_bytes = 16384, .bytes_per_s = 1.25e9, .latency_seconds = 1e-3};
  for (const int32_t rows : {1, kFreeRows}) profile.costs.add(Role::kTarget, {rows}, 302e-3);
  for (const int32_t rows : {kFreeRows + 1, 2 * kFreeRows}) {
    profile.costs.add(Role::kTarget, {rows}, 556e-3);
  }
  for (const int32_t rows : {1, 128}) profile.costs.add(Role::kDraft, {rows}, 17e-3);
  return profile;
}

struct Played {
  double tokens_per_s = 0.0;
  double p99_seconds = 0.0;  // of the times between two tokens
  int32_t most_rows = 0;     // of a Step of the target that began when a request decoded
};

Played play(const SimulatedText& text, const SpeculationOptions& speculation, int32_t at_once,
            size_t prompt_tokens = 64) {
  const StepProfile profile = eight_stages();
  LiveCosts costs;
  StepCosts in_stages = profile.costs;
  in_stages.set_stages(stage_costs(*profile.stages));
  costs.set(std::move(in_stages));
  Played played;
  size_t tokens = 0;
  double first_token_seconds = 0.0;
  SimulatedExecutorOptions setup;
  setup.profile = profile;
  setup.acceptance = std::make_shared<ModelledAcceptance>(text.models(7));
  setup.costs = &costs;
  setup.host_seconds = 150e-6;
  setup.on_step = [&](const StepRecord& record) {
    if (record.role != Role::kTarget || tokens == 0) return;
    if (1e-9 * static_cast<double>(record.start_ns) < first_token_seconds) return;
    played.most_rows = std::max(played.most_rows, record.rows);
  };
  SimulatedExecutor executor(std::move(setup));
  std::vector<OfflineRequest> requests(static_cast<size_t>(std::max(8, 3 * at_once)));
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    for (size_t token = 0; token < prompt_tokens; ++token) {
      requests[idx].prompt.push_back(static_cast<TokenId>((idx * 37 + token) % 5000));
    }
    // Lengths differ, so that some requests begin while others decode.
    requests[idx].new_tokens = static_cast<int32_t>(100 + idx * 37 % 100);
  }
  const auto shared = std::make_shared<SharedAcceptance>();
  std::vector<double> last(requests.size()), gaps;
  OfflineOptions options;
  options.max_active = at_once;
  options.costs = &costs;
  options.drafts_sequentially = false;
  options.clock = [&] { return executor.now_seconds(); };
  options.make_strategy = [&](size_t) {
    return resolve_speculation(speculation)
        .value()
        ->make_strategy({.shared = shared, .costs = costs.table(at_once, kReferenceContext)});
  };
  options.on_tokens = [&](size_t request, size_t count) {
    const double now = executor.now_seconds();
    if (last[request] > 0.0) gaps.push_back(now - last[request]);
    gaps.insert(gaps.end(), count - 1, 0.0);
    last[request] = now;
    if (tokens == 0) first_token_seconds = now;
    tokens += count;
  };
  EXPECT_TRUE(run_offline(executor, requests, options).ok());
  played.tokens_per_s = static_cast<double>(tokens) / executor.now_seconds();
  const auto place = gaps.begin() + static_cast<std::ptrdiff_t>(99 * gaps.size() / 100);
  std::nth_element(gaps.begin(), place, gaps.end());
  played.p99_seconds = *place;
  return played;
}

// A miss costs a pass and hardly more: results come when the first stage becomes free, and prompts
// do not make Steps longer.
TEST(OfflineStages, TheLongestTimesBetweenTokensAreThoseOfPlainDecoding) {
  for (const SimulatedText& text : {simulated_texts()[1], simulated_texts()[4]}) {
    for (const int32_t at_once : {1, 2, 4, 8}) {
      SCOPED_TRACE(text.name + ", " + std::to_string(at_once));
      const Played plain = play(text, {.strategy = "autoregressive"}, at_once);
      const Played pipelined = play(text, {.strategy = "pipelined"}, at_once);
      EXPECT_LE(pipelined.p99_seconds, (at_once <= 4 ? 1.1 : 1.25) * plain.p99_seconds);
      EXPECT_GT(pipelined.tokens_per_s, 1.5 * plain.tokens_per_s);
    }
  }
}

// Short prompts ride along where rows are free; a long one is read in Steps of its own length.
TEST(OfflineStages, ShortPromptsTakeTheRowsThatAreFree) {
  const SimulatedText prose = simulated_texts()[1];
  for (const char* shape : {"adaptive", "best"}) {
    SpeculationOptions pipelined = {.strategy = "pipelined", .shape = shape};
    if (pipelined.shape == "best") pipelined.verify_tokens = 16;
    EXPECT_LE(play(prose, pipelined, 4).most_rows, kFreeRows) << shape;
    EXPECT_GT(play(prose, pipelined, 4, 1024).most_rows, kFreeRows) << shape;
  }
}

}  // namespace
}  // namespace forerun
