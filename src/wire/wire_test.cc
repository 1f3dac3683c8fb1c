#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "wire/sampling_lists.h"
#include "wire/testing.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

using testing::ExtremeFiller;
using testing::printed;

enum class Color : uint8_t { kRed, kGreen, kBlue };

struct Point {
  int32_t x = 0;
  double y = 0.0;
  Color color = Color::kRed;
  bool operator==(const Point&) const = default;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Point> auto& point) {
  visit("x", point.x);
  visit("y", point.y);
  visit.choice("color", point.color, Color::kBlue);
}

struct Everything {
  bool flag = false;
  uint64_t number = 0;
  std::string text;
  Bytes bytes;
  std::vector<float> reals;
  std::vector<bool> flags;
  std::vector<std::string> texts;
  std::vector<std::vector<int16_t>> lists;
  std::vector<std::pair<std::string, Point>> pairs;
  std::optional<Point> point;
  std::optional<std::vector<uint8_t>> small;
  std::chrono::milliseconds time{0};
  Status status;
  std::vector<Point> by_hand;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<Everything> auto& all) {
  visit("flag", all.flag);
  visit("number", all.number);
  visit("text", all.text);
  visit("bytes", all.bytes);
  visit("reals", all.reals);
  visit("flags", all.flags);
  visit("texts", all.texts);
  visit("lists", all.lists);
  visit("pairs", all.pairs);
  visit("point", all.point);
  visit("small", all.small);
  visit("time", all.time);
  visit("status", all.status);
  visit.list("by_hand", all.by_hand, [&](auto& point) { visit_fields(visit, point); });
}

Everything filled(uint32_t seed) {
  Everything all;
  ExtremeFiller filler(seed);
  visit_fields(filler, all);
  return all;
}

TEST(Wire, EveryTypeComesBackBitForBit) {
  Everything back = filled(3);  // its previous content does not matter
  for (uint32_t seed = 0; seed < ExtremeFiller::kSeeds; ++seed) {
    const Everything all = filled(seed);
    const Bytes bytes = to_bytes(all);
    const Status status = from_bytes("all", bytes, back);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(printed(back), printed(all));
    EXPECT_EQ(to_bytes(back), bytes);
  }
}

TEST(Wire, ParametersOfSamplingComeBack) {
  for (uint32_t seed = 0; seed < ExtremeFiller::kSeeds; ++seed) {
    ExtremeFiller filler(seed);
    SamplingParams params, params_back;
    visit_fields(filler, params);
    ASSERT_TRUE(from_bytes("params", to_bytes(params), params_back).ok());
    EXPECT_EQ(printed(params_back), printed(params));
    EXPECT_EQ(params_back.seed, params.seed);
    EXPECT_EQ(params_back.end_tokens, params.end_tokens);
    SamplingOptions options, options_back;
    visit_fields(filler, options);
    ASSERT_TRUE(from_bytes("options", to_bytes(options), options_back).ok());
    EXPECT_EQ(printed(options_back), printed(options));
    EXPECT_EQ(options_back.top_k, options.top_k);
  }
}

TEST(Wire, EveryBeginningIsRefused) {
  for (uint32_t seed = 0; seed < ExtremeFiller::kSeeds; ++seed) {
    const Bytes bytes = to_bytes(filled(seed));
    for (size_t length = 0; length < bytes.size(); ++length) {
      Everything all;
      const auto part = std::span(bytes).first(length);
      EXPECT_EQ(from_bytes("all", part, all).code(), StatusCode::kCorrupt) << length;
    }
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    Everything all;
    EXPECT_EQ(from_bytes("all", longer, all).message(),
              "message: end: found 1 more bytes; accepted: none");
  }
}

TEST(Wire, WhatIsWrongIsNamed) {
  const std::vector<Point> points = {{1, 2.0, Color::kGreen}, {3, 4.0, Color::kBlue}};
  const auto why = [](Bytes bytes, size_t at, uint8_t value) {
    bytes.at(at) = std::byte{value};
    std::vector<Point> back;
    return from_bytes("points", bytes, back).message();
  };
  const Bytes bytes = to_bytes(points);
  EXPECT_EQ(why(bytes, bytes.size() - 1, 3), "message: points: color: found 3; accepted: 0 to 2");
  EXPECT_EQ(why(bytes, 0, 3), "message: points: x: found 0 bytes, needed are 4");
  EXPECT_EQ(why(bytes, 6, 1),
            "message: points: found 281474976710658 items of at least 1 bytes, left are 26 bytes");
  bool flag = false;
  EXPECT_EQ(from_bytes("flag", Bytes{std::byte{2}}, flag).message(),
            "message: flag: found 2; accepted: 0 or 1");
  std::string text;
  WireReader from(bytes);
  from.same("build", "a", "both are of one build");
  EXPECT_EQ(from.status().message().substr(0, 23), "message: build: found '");
  EXPECT_TRUE(from.status().message().ends_with("'; accepted: 'a' (both are of one build)"));
  from.fail("later", "is not told");
  EXPECT_EQ(from.get<uint64_t>("nothing"), 0u);
  EXPECT_EQ(from.finish().message().find("later"), std::string::npos);
}

// Any bytes are read or refused, and accepted bytes are written again as the same bytes.
TEST(Wire, AlteredBytesDoNoHarm) {
  std::mt19937 random(11);
  constexpr int kTurns = kThreadSanitized ? 2000 : 20000;
  int read = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    Bytes bytes = to_bytes(filled(static_cast<uint32_t>(turn) % ExtremeFiller::kSeeds));
    for (int edit = 1 + static_cast<int>(random() % 3); edit > 0; --edit) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    Everything all;
    if (!from_bytes("all", bytes, all).ok()) continue;
    EXPECT_EQ(to_bytes(all), bytes);
    ++read;
  }
  EXPECT_GT(read, kTurns / 200);
}

}  // namespace
}  // namespace forerun
