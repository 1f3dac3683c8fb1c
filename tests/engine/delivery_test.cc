// Readers are told while devices work: no Step waits for them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/loop/engine_loop.h"
#include "exec/exec_rig.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

class Delivery : public ::testing::TestWithParam<bool> {};

// The second Step of the target lasts until the reader has the tokens of the first one.
TEST_P(Delivery, TokensReachTheirReaderWhileTheNextStepRuns) {
  Rig rig({.threaded = GetParam()});
  std::atomic<bool> has_read{false};
  int steps = 0;
  int waited_in_vain = 0;
  rig.target.while_running = [&] {
    if (++steps != 2) return;
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (!has_read && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (!has_read) ++waited_in_vain;
  };
  {
    EngineLoop loop({}, std::move(rig.executor));
    Request request;
    request.prompt_tokens = {1, 2, 3};
    request.max_new_tokens = 4;
    request.ignore_eos = true;
    const auto stream = submit_to_loop(loop, std::move(request), toy_tokenizer());
    size_t tokens = 0;
    while (const auto event = stream->next()) {
      tokens += event->tokens.size();
      has_read = true;
      if (event->finished) break;
    }
    EXPECT_EQ(tokens, 4u);
  }
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(waited_in_vain, 0);
}
INSTANTIATE_TEST_SUITE_P(InlineAndThreaded, Delivery, ::testing::Bool());

}  // namespace
}  // namespace forerun::testing
