#include "supervisor/message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/sanitized.h"

namespace forerun {
namespace {

DownMessage full_submit() {
  DownMessage message;
  message.kind = DownMessage::Kind::kSubmit;
  message.id = std::numeric_limits<uint64_t>::max();
  message.call = 3;
  Request& request = message.request;
  request.prompt = "a \"text\" of\nlines, ü and \x01";
  request.prompt_tokens = {1, 2, 70000};
  request.resume_tokens = {9};
  request.sampling.temperature = 0.1f;
  request.sampling.logit_bias = {{5, -1.5f}, {6, 1e-30f}};
  request.sampling.seed = std::numeric_limits<uint64_t>::max();
  request.stop = {"", "x"};
  request.output_format.reasoning = {.close = "</think>", .open = "<think>"};
  request.deadline = std::chrono::milliseconds(1500);
  request.priority = -3;
  request.speculation = SpeculationOptions{.strategy = "pipelined", .verify_tokens = 4};
  return message;
}

UpMessage full_event() {
  UpMessage message;
  message.kind = UpMessage::Kind::kEvent;
  message.id = 8;
  Event& event = message.event;
  event.sample_idx = 2;
  event.text = "né";
  event.tokens = {1, 2};
  event.drafted = {true, false};
  event.time_s = 0.75;
  event.logprobs = {{{1, -0.1f}, {2, -std::numeric_limits<float>::infinity()}}, {}};
  event.rounds = {{{{4, -1, 0.25f, true}}, 7}};
  event.finished = true;
  event.reason = FinishReason::kError;
  event.stop_text = "né";
  event.stop_token = 70000;
  event.error =
      Status(StatusCode::kOverloaded, "later").with_retry_after(std::chrono::milliseconds(20));
  event.stats.seed = 1ull << 63;
  event.stats.decode_s = 0.1;
  return message;
}

TEST(Message, ComesBackAsItWas) {
  const std::string submit = write_message(full_submit());
  EXPECT_EQ(submit.find('\n'), std::string::npos);
  const auto down = read_down_message(submit);
  ASSERT_TRUE(down.ok()) << down.status().message();
  EXPECT_EQ(write_message(*down), submit);
  EXPECT_EQ(down->request.sampling.temperature, 0.1f);
  EXPECT_FALSE(down->request.sampling.top_k.has_value());
  EXPECT_EQ(down->request.prompt, full_submit().request.prompt);
  EXPECT_EQ(down->request.sampling.seed, full_submit().request.sampling.seed);
  EXPECT_EQ(down->request.output_format.reasoning, full_submit().request.output_format.reasoning);

  const std::string event = write_message(full_event());
  const auto up = read_up_message(event);
  ASSERT_TRUE(up.ok()) << up.status().message();
  EXPECT_EQ(write_message(*up), event);
  EXPECT_EQ(up->event.error.retry_after().count(), 20);
  EXPECT_EQ(up->event.logprobs[0][0].logprob, -0.1f);
  EXPECT_EQ(up->event.time_s, 0.75);
  EXPECT_EQ(up->event.stop_text, "né");
  EXPECT_EQ(up->event.stop_token, 70000);
  EXPECT_TRUE(std::isinf(up->event.logprobs[0][1].logprob));
}

TEST(Message, EveryKindComesBack) {
  for (int kind = 0; kind <= static_cast<int>(DownMessage::Kind::kEnd); ++kind) {
    DownMessage message;
    message.kind = static_cast<DownMessage::Kind>(kind);
    const auto again = read_down_message(write_message(message));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->kind, message.kind);
  }
  for (int kind = 0; kind <= static_cast<int>(UpMessage::Kind::kFailure); ++kind) {
    UpMessage message;
    message.kind = static_cast<UpMessage::Kind>(kind);
    message.rank = 2;
    message.state.load.draft_faults = 3;
    const auto again = read_up_message(write_message(message));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->kind, message.kind);
    const bool has_rank = message.kind == UpMessage::Kind::kFailure;
    EXPECT_EQ(again->rank.has_value(), has_rank);
    const bool has_state = message.kind == UpMessage::Kind::kState;
    EXPECT_EQ(again->state.load.draft_faults, has_state ? 3 : 0);
  }
  EngineOptions options;
  options.model = "somewhere";
  options.stage_layers = {1, 2};
  const auto again = read_options(write_options(options));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->stage_layers, options.stage_layers);
}

TEST(Message, WhatIsNoneIsNamed) {
  const auto why = [](const std::string& line) { return read_up_message(line).status().message(); };
  EXPECT_NE(why("mpirun: help").find("found 'mpirun: help'"), std::string::npos);
  EXPECT_NE(why("[]").find("accepted: a JSON object"), std::string::npos);
  EXPECT_NE(why("{}").find("kind: found nothing"), std::string::npos);
  EXPECT_NE(why(R"({"kind": 99})").find("kind"), std::string::npos);
  EXPECT_NE(why(R"({"kind": -1})").find("kind"), std::string::npos);
  EXPECT_NE(why(R"({"kind": 1, "text": 3, "fraction": 0})").find("text: found number"),
            std::string::npos);
  EXPECT_NE(why(R"({"kind": 1, "text": "", "fraction": "much"})").find("fraction"),
            std::string::npos);
  EXPECT_NE(why(std::string(5000, '[')).find("accepted: "), std::string::npos);
}

// Whatever bytes come, they are read or refused, and what is read can be written.
TEST(Message, AlteredLinesDoNoHarm) {
  std::mt19937 random(7);
  const std::string lines[] = {write_message(full_submit()), write_message(full_event())};
  constexpr int kTurns = kThreadSanitized ? 2000 : 20000;
  int read = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    std::string line = lines[turn % 2];
    for (int edit = 1 + static_cast<int>(random() % 3); edit > 0; --edit) {
      const size_t at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = static_cast<char>(random());
          break;
        case 1:
          line.erase(at, 1 + random() % 8);
          break;
        default:
          line.insert(at, line.substr(random() % line.size(), random() % 8));
      }
      if (line.empty()) line = "{";
    }
    const auto down = read_down_message(line);
    const auto up = read_up_message(line);
    if (down.ok()) write_message(*down);
    if (up.ok()) write_message(*up);
    read += down.ok() || up.ok();
  }
  EXPECT_GT(read, kTurns / 200);  // of small edits some leave a message
}

}  // namespace
}  // namespace forerun
