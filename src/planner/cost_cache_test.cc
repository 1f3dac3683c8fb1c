#include "planner/cost_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/log.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

StepCosts some_costs(bool with_draft = true) {
  StepCosts costs;
  for (const int32_t rows : {1, 8, 64}) {
    costs.add(Role::kTarget, {rows}, 1e-3 * (1.0 + 0.013 * rows));
    if (with_draft) costs.add(Role::kDraft, {rows, 4096}, 1e-4 * (1.0 + 0.017 * rows));
  }
  costs.set_slopes(Role::kTarget,
                   {.per_kv_token = 3e-8, .per_attended_token = 1e-9, .per_sequence = 1e-5});
  return costs;
}

const CostKey kKey = {{"processors", "model name: Abacus 9000, 2 of them"}, {"target", "toy 0123"}};

void expect_same(const StepCosts& expected, const StepCosts& found) {
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    ASSERT_EQ(expected.has(role), found.has(role));
    const auto entries = found.entries(role);
    ASSERT_EQ(expected.entries(role).size(), entries.size());
    for (const StepCosts::Entry& entry : expected.entries(role)) {
      const StepLoad load{entry.rows, entry.kv_tokens, 3, 1000};
      EXPECT_NEAR(found.seconds(role, load), expected.seconds(role, load), 1e-9) << entry.rows;
    }
  }
}

class CostCacheTest : public ::testing::Test {
 protected:
  CostCacheTest() {
    fs::remove_all(folder_);
    set_log_sink([this](LogLevel, std::string_view line) { log_.emplace_back(line); });
  }
  ~CostCacheTest() override {
    set_log_sink({});
    fs::remove_all(folder_);
  }
  void overwrite(const std::string& text) const {
    std::ofstream(cache_.file_of(kKey), std::ios::trunc) << text;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "forerun_cost_cache_test" / "below";
  const CostCache cache_{folder_};
  std::vector<std::string> log_;
};

TEST_F(CostCacheTest, FindsWhatItKept) {
  EXPECT_FALSE(cache_.find(kKey).has_value());
  cache_.keep(kKey, some_costs());
  const auto found = cache_.find(kKey);
  ASSERT_TRUE(found.has_value());
  expect_same(some_costs(), *found);
  // One file, and no other file beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_TRUE(log_.empty());
}

TEST_F(CostCacheTest, AnythingInTheKeyMakesItAnother) {
  cache_.keep(kKey, some_costs());
  for (const auto& [name, value] : kKey) {
    CostKey other = kKey;
    other[name] = value + "'";
    EXPECT_FALSE(cache_.find(other).has_value()) << name;
  }
  CostKey more = kKey;
  more["cuda:0"] = "";
  EXPECT_FALSE(cache_.find(more).has_value());
  EXPECT_TRUE(log_.empty());
}

TEST_F(CostCacheTest, ReplacesWhatItHas) {
  cache_.keep(kKey, some_costs());
  cache_.keep(kKey, some_costs(/*with_draft=*/false));
  const auto found = cache_.find(kKey);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has(Role::kDraft));
}

TEST_F(CostCacheTest, DamagedAndForeignFilesCostALineInTheLog) {
  cache_.keep(kKey, some_costs());
  const std::string good = write_cost_file({kKey, some_costs()});
  const std::string other_key = write_cost_file({{{"target", "another"}}, some_costs()});
  std::string later_version = good;
  later_version.replace(later_version.find(": 1"), 3, ": 2");
  for (const std::string& text :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2), later_version,
        std::string("[]"), other_key, std::string(2 << 20, ' ')}) {
    overwrite(text);
    log_.clear();
    EXPECT_FALSE(cache_.find(kKey).has_value()) << text.substr(0, 80);
    ASSERT_EQ(log_.size(), 1u) << text.substr(0, 80);
    EXPECT_NE(log_[0].find(cache_.file_of(kKey).string()), std::string::npos) << log_[0];
  }
  // The next measurement repairs it.
  cache_.keep(kKey, some_costs());
  EXPECT_TRUE(cache_.find(kKey).has_value());
}

TEST_F(CostCacheTest, FoldersThatCannotBeWrittenCostALineInTheLog) {
  fs::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file where the folder should be";
  cache_.keep(kKey, some_costs());
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("not kept"), std::string::npos) << log_[0];
  EXPECT_FALSE(cache_.find(kKey).has_value());
}

TEST_F(CostCacheTest, WithoutAFolderNothingIsKept) {
  const CostCache none{fs::path()};
  EXPECT_FALSE(none.enabled());
  none.keep(kKey, some_costs());
  EXPECT_FALSE(none.find(kKey).has_value());
  EXPECT_TRUE(log_.empty());
}

TEST(CostFile, RefusesWhatIsNoTime) {
  const std::string good = write_cost_file({kKey, some_costs()});
  ASSERT_TRUE(parse_cost_file(good, "costs.json").ok());
  struct Case {
    std::string from, to, named;
  };
  for (const Case& c :
       {Case{"\"rows\": 1,", "\"rows\": 0,", "rows"},
        Case{"\"rows\": 1,", "\"rows\": 1, \"more\": 2,", "more"},
        Case{"\"kv_tokens\": 0", "\"kv_tokens\": -1", "kv_tokens"},
        Case{"\"seconds_per_sequence\": ", "\"seconds_per_sequence\": -", "sequence"},
        Case{"\"seconds\": ", "\"seconds\": 9999999", "seconds"},
        Case{"\"target\": {", "\"tarot\": {", "tarot"},
        Case{"\"key\": {", "\"key\": 3, \"target\": {", "target"}}) {
    std::string text = good;
    text.replace(text.find(c.from), c.from.size(), c.to);
    const auto file = parse_cost_file(text, "costs.json");
    ASSERT_FALSE(file.ok()) << c.to;
    EXPECT_NE(file.status().message().find(c.named), std::string::npos) << file.status().message();
    EXPECT_NE(file.status().message().find("costs.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace forerun
