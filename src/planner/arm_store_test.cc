#include "planner/arm_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/sanitized.h"
#include "planner/arm_file.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

const CostKey kArmKey = {{"processors", "Abacus 9000"}, {"target", "toy 0123"}};
const std::vector<std::string> kNames = {"text", "plain", "snapkv 512"};

MeasuredArms some_arms() {
  return {.arms = {{.noise = 0.05,
                    .noise_count = 12,
                    .spread = 0.1,
                    .spread_count = 30,
                    .loads = {{.sequences = 8, .context_tokens = 4000, .ratio = 0.9, .count = 20},
                              {.sequences = 1, .context_tokens = 300, .ratio = 1.1, .count = 3}}},
                   {},
                   {.loads = {{24, 32000, 1.25, 0.5}}}},
          .candidates = {{.seen = 250, .right = 200}}};
}

std::string as_text(const MeasuredArms& measured) {
  return write_arm_file({.key = kArmKey, .measured = measured});
}

class ArmStoreTest : public ::testing::Test {
 protected:
  ArmStoreTest() {
    fs::remove_all(folder_);
    set_log_sink([this](LogLevel, std::string_view line) { log_.emplace_back(line); });
  }
  ~ArmStoreTest() override {
    set_log_sink({});
    fs::remove_all(folder_);
  }
  ArmStore store(const std::vector<std::string>& names = kNames) const {
    return ArmStore(KeyedFolder(folder_), kArmKey, names, 1);
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "forerun_arm_store_test" / "below";
  std::vector<std::string> log_;
};

TEST_F(ArmStoreTest, FindsWhatItKept) {
  EXPECT_FALSE(store().find().has_value());
  store().keep(some_arms());
  const auto found = store().find();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(as_text(*found), as_text(some_arms()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_FALSE(store({"text", "plain", "snapkv 1024"}).find().has_value());
  EXPECT_TRUE(log_.empty());
}

TEST_F(ArmStoreTest, DamagedAndForeignFilesCostALineInTheLog) {
  ArmStore kept = store();
  kept.keep(some_arms());
  std::ifstream in(kept.file());
  const std::string good{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(good.empty());
  std::string later_version = good;
  later_version.replace(later_version.find(": 1"), 3, ": 2");
  const ArmFile file = parse_arm_file(good, "good").value();
  ArmFile fewer = file;
  fewer.measured.arms.pop_back();
  ArmFile other = file;
  other.key["target"] = "another";
  for (const std::string& text : {std::string(), std::string("{"), good.substr(0, good.size() / 2),
                                  later_version, std::string("[]"), write_arm_file(fewer),
                                  write_arm_file(other), std::string(2 << 20, ' ')}) {
    std::ofstream(kept.file(), std::ios::trunc) << text;
    log_.clear();
    EXPECT_FALSE(kept.find().has_value()) << text.substr(0, 80);
    ASSERT_EQ(log_.size(), 1u) << text.substr(0, 80);
    EXPECT_NE(log_[0].find(kept.file().string()), std::string::npos) << log_[0];
  }
  log_.clear();
  fs::remove(kept.file());
  EXPECT_FALSE(kept.find().has_value());
  kept.keep(some_arms());
  EXPECT_TRUE(kept.find().has_value());
  EXPECT_TRUE(log_.empty());
}

TEST_F(ArmStoreTest, AFolderThatCannotBeWrittenCostsOneLine) {
  fs::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file where the folder should be";
  ArmStore kept = store();
  kept.keep(some_arms());
  kept.keep(some_arms());
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("not kept"), std::string::npos) << log_[0];
}

TEST(ArmFile, RefusesWhatWasNotMeasured) {
  const std::string good = as_text(some_arms());
  ASSERT_TRUE(parse_arm_file(good, "arms.json").ok());
  struct Case {
    std::string from, to, named;
  };
  for (const Case& c :
       {Case{"\"ratio\": ", "\"ratio\": -", "ratio"}, Case{"\"ratio\": ", "\"ratio\": 99", "ratio"},
        Case{"\"count\": ", "\"count\": 99999", "count"},
        Case{"\"sequences\": 8", "\"sequences\": 0", "sequences"},
        Case{"\"sequences\": 8.0,", "", "sequences"}, Case{"\"right\": ", "\"right\": 9", "right"},
        Case{"\"noise\": ", "\"more\": 1, \"noise\": ", "more"},
        Case{"\"loads\": ", "\"loads\": 3, \"lists\": ", "l"},
        Case{"\"candidates\"", "\"views\"", "views"}}) {
    std::string text = good;
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, c.from.size(), c.to);
    const auto file = parse_arm_file(text, "arms.json");
    ASSERT_FALSE(file.ok()) << c.to;
    EXPECT_NE(file.status().message().find(c.named), std::string::npos) << file.status().message();
    EXPECT_NE(file.status().message().find("arms.json"), std::string::npos);
  }
}

TEST(ArmFile, LeavesOutWhatIsNoMeasurement) {
  MeasuredArms odd = some_arms();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  odd.arms[0].loads = {{8, 4000, nan, 3}, {8, 4000, 0.0, 3}, {0.0, 1, 1, 1}, {8, 4000, 1.0, 1e-9}};
  odd.arms[1].noise = std::numeric_limits<double>::infinity();
  odd.candidates[0] = {.seen = nan, .right = nan};
  const auto read = parse_arm_file(as_text(odd), "arms.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read->measured.arms[0].loads.empty());
  EXPECT_EQ(read->measured.arms[1].noise, 0.0);
  EXPECT_EQ(read->measured.candidates[0].seen, 0.0);
}

// Bytes of a valid file are changed, removed and doubled at random: the file is refused with a line
// that names it, or its content survives writing.
TEST(ArmFile, ReadsAnyTextOrRefusesIt) {
  const std::string good = as_text(some_arms());
  std::mt19937 random{7};
  const auto below = [&](size_t bound) { return random() % bound; };
  constexpr int32_t kRounds = kSanitized ? 2'000 : 20'000;
  int32_t read = 0;
  for (int32_t round = 0; round < kRounds; ++round) {
    std::string text = good;
    for (size_t change = 0; change <= below(3); ++change) {
      const size_t at = below(text.size());
      const size_t length = std::min(text.size() - at, 1 + below(6));
      switch (below(3)) {
        case 0:
          text[at] = "0123456789-.eE{}[],:\" \xff"[below(23)];
          break;
        case 1:
          text.erase(at, length);
          break;
        default:
          text.insert(at, text.substr(below(text.size() - length + 1), length));
      }
    }
    const auto file = parse_arm_file(text, "arms.json");
    if (!file.ok()) {
      ASSERT_NE(file.status().message().find("arms.json"), std::string::npos);
      ASSERT_EQ(file.status().message().find('\n'), std::string::npos);
      continue;
    }
    ++read;
    const std::string written = write_arm_file(*file);
    const auto again = parse_arm_file(written, "written");
    ASSERT_TRUE(again.ok()) << again.status().message();
    ASSERT_EQ(write_arm_file(*again), written);
  }
  EXPECT_GT(read, kRounds / 200);
}

}  // namespace
}  // namespace forerun
