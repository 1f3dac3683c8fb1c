#include "supervisor/message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/sanitized.h"
#include "supervisor/message_fields.h"
#include "wire/frame.h"
#include "wire/testing.h"

namespace forerun {
namespace {

using testing::ExtremeFiller;
using testing::printed;

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
  const Bytes submit = write_message(full_submit());
  const auto down = read_down_message(submit);
  ASSERT_TRUE(down.ok()) << down.status().message();
  EXPECT_EQ(write_message(*down), submit);
  EXPECT_EQ(down->request.sampling.temperature, 0.1f);
  EXPECT_FALSE(down->request.sampling.top_k.has_value());
  EXPECT_EQ(down->request.prompt, full_submit().request.prompt);
  EXPECT_EQ(down->request.sampling.seed, full_submit().request.sampling.seed);
  EXPECT_EQ(down->request.output_format.reasoning, full_submit().request.output_format.reasoning);

  const Bytes event = write_message(full_event());
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

template <class T>
T filled(typename T::Kind kind, uint32_t seed) {
  T message;
  message.kind = kind;
  ExtremeFiller filler(seed);
  visit_fields(filler, message);
  EXPECT_EQ(filler.failure(), "");
  return message;
}

// Tests every field that a kind carries, with infinities, NaN, the largest and smallest numbers,
// texts of any bytes, and optional fields that are set and unset.
TEST(Message, EveryKindComesBackBitForBit) {
  for (uint32_t seed = 0; seed < ExtremeFiller::kSeeds; ++seed) {
    for (uint8_t kind = 0; kind <= static_cast<uint8_t>(DownMessage::kLastKind); ++kind) {
      const auto message = filled<DownMessage>(static_cast<DownMessage::Kind>(kind), seed);
      const auto back = read_down_message(write_message(message));
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back->kind, message.kind);
      EXPECT_EQ(printed(*back), printed(message));
      EXPECT_EQ(write_message(*back), write_message(message));
    }
    for (uint8_t kind = 0; kind <= static_cast<uint8_t>(UpMessage::kLastKind); ++kind) {
      const auto message = filled<UpMessage>(static_cast<UpMessage::Kind>(kind), seed);
      const auto back = read_up_message(write_message(message));
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_EQ(back->kind, message.kind);
      EXPECT_EQ(printed(*back), printed(message));
      EXPECT_EQ(write_message(*back), write_message(message));
    }
    EngineOptions options;
    ExtremeFiller filler(seed);
    visit_fields(filler, options);
    const auto back = read_options(write_options(options));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(printed(*back), printed(options));
  }
}

TEST(Message, CarriesWhatItsKindHas) {
  UpMessage message;
  message.rank = 2;
  message.state.load.draft_faults = 3;
  for (const auto kind : {UpMessage::Kind::kFailure, UpMessage::Kind::kState}) {
    message.kind = kind;
    const auto again = read_up_message(write_message(message));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->rank.has_value(), kind == UpMessage::Kind::kFailure);
    EXPECT_EQ(again->state.load.draft_faults, kind == UpMessage::Kind::kState ? 3 : 0);
  }
}

// Returns the bytes of a text as a frame of this kind.
Bytes frame_of(UpMessage::Kind kind, const std::string& payload) {
  Bytes frame = begin_frame({.kind = static_cast<uint8_t>(kind)});
  for (const char letter : payload) frame.push_back(static_cast<std::byte>(letter));
  end_frame(frame);
  return frame;
}

TEST(Message, WhatIsNoneIsNamed) {
  const auto why = [](const Bytes& frame) { return read_up_message(frame).status().message(); };
  EXPECT_NE(why({}).find("message: mark: found 0 bytes"), std::string::npos);
  EXPECT_NE(why(Bytes(40)).find("not a message of Forerun"), std::string::npos);
  EXPECT_NE(why(frame_of(static_cast<UpMessage::Kind>(99), "")).find("kind: found 99; accepted"),
            std::string::npos);
  EXPECT_EQ(why(frame_of(UpMessage::Kind::kProgress, "")),
            "message: text: found 0 bytes, needed are 8");
  EXPECT_NE(why(frame_of(UpMessage::Kind::kPing, "x")).find("found 1 more bytes"),
            std::string::npos);
  UpMessage event = full_event();
  event.event = {};
  Bytes frame = write_message(event);
  frame.back() = std::byte{7};  // Event::finished
  EXPECT_EQ(why(frame), "message: event: finished: found 7; accepted: 0 or 1");
}

TEST(Message, AnotherBuildIsRefused) {
  DownMessage hello;
  hello.kind = DownMessage::Kind::kHello;
  Bytes frame = write_message(hello);
  frame[kFrameHeaderBytes + sizeof(uint64_t)] ^= std::byte{1};
  const std::string why = read_down_message(frame).status().message();
  EXPECT_TRUE(why.starts_with("message: build: found '")) << why;
  EXPECT_NE(why.find("of one build of Forerun"), std::string::npos) << why;
  Bytes options = write_options({});
  options[sizeof(uint64_t)] ^= std::byte{1};
  EXPECT_EQ(read_options(options).status().message(), why);
}

// Any bytes are read or refused, and accepted bytes are written again as the same bytes.
TEST(Message, AlteredFramesDoNoHarm) {
  std::mt19937 random(7);
  const Bytes frames[] = {write_message(full_submit()), write_message(full_event())};
  constexpr int kTurns = kThreadSanitized ? 2000 : 20000;
  int read = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    Bytes frame = frames[turn % 2];
    for (int edit = 1 + static_cast<int>(random() % 3); edit > 0; --edit) {
      const auto at = static_cast<ptrdiff_t>(random() % frame.size());
      switch (random() % 4) {
        case 0:
          frame.erase(frame.begin() + at);
          break;
        case 1:
          frame.insert(frame.begin() + at, std::byte{0});
          break;
        default:
          frame[static_cast<size_t>(at)] = static_cast<std::byte>(random());
      }
    }
    if (random() % 2 == 0) end_frame(frame);
    const auto down = read_down_message(frame);
    const auto up = read_up_message(frame);
    EXPECT_TRUE(!down.ok() || write_message(*down) == frame);
    EXPECT_TRUE(!up.ok() || write_message(*up) == frame);
    read += down.ok() || up.ok();
  }
  EXPECT_GT(read, kTurns / 200);  // some small edits leave a valid message
}

}  // namespace
}  // namespace forerun
