// Engines that start where earlier ones have measured what Steps cost.
#include "planner/cost_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFromCache = "as measured by an earlier start";

class StepCostsAtStart : public ::testing::Test {
 protected:
  StepCostsAtStart() { fs::remove_all(folder_); }
  ~StepCostsAtStart() override { fs::remove_all(folder_); }

  EngineOptions options() const {
    EngineOptions options;
    options.model = pair_.target();
    options.draft = pair_.draft();
    options.devices = "cpu:0";
    options.cost_cache = folder_.string();
    return options;
  }
  static std::string report_of(const EngineOptions& options) {
    const auto engine = Engine::create(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? (*engine)->info().planner_report : "";
  }
  static bool from_cache(const EngineOptions& options) {
    return report_of(options).find(kFromCache) != std::string::npos;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    if (!fs::exists(folder_)) return files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    return files;
  }
  static std::string content(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  // Makes the only file tell of Steps `factor` times as long.
  void stretch(double factor) const {
    const fs::path file = files().front();
    auto kept = parse_cost_file(content(file), "kept");
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    StepCosts costs;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      for (const StepCosts::Entry& entry : kept->costs.entries(role)) {
        costs.add(role, {entry.rows, entry.kv_tokens}, factor * entry.seconds);
      }
    }
    std::ofstream(file) << write_cost_file({kept->key, costs});
  }

  const ToyPair pair_{ToySpec{}};
  const fs::path folder_ = fs::path(::testing::TempDir()) / "forerun_step_costs_at_start_test";
};

TEST_F(StepCostsAtStart, AreMeasuredOnceAndThenRead) {
  EXPECT_FALSE(from_cache(options()));
  ASSERT_EQ(files().size(), 1u);
  // A start in a quieter moment would measure again: far too short for that.
  stretch(1e-3);
  const std::string kept = content(files().front());
  EXPECT_TRUE(from_cache(options()));
  EXPECT_EQ(content(files().front()), kept);
}

TEST_F(StepCostsAtStart, AreMeasuredAgainWhereStepsAreFasterThanKept) {
  from_cache(options());
  stretch(1e3);
  const std::string kept = content(files().front());
  EXPECT_FALSE(from_cache(options()));
  ASSERT_EQ(files().size(), 1u);
  EXPECT_NE(content(files().front()), kept);
}

TEST_F(StepCostsAtStart, AreMeasuredAnewWhereThatIsAskedFor) {
  from_cache(options());
  stretch(1e-3);
  EngineOptions anew = options();
  anew.measure_anew = true;
  EXPECT_FALSE(from_cache(anew));
  ASSERT_EQ(files().size(), 1u);
}

TEST_F(StepCostsAtStart, BelongToTheirModelsDevicesAndNumerics) {
  from_cache(options());
  std::vector<EngineOptions> others(4, options());
  others[0].draft.clear();
  others[1].weights = "int8";
  others[2].max_context_tokens = 64;
  others[3].devices = "cpu:0,cpu:0";
  size_t kept = 1;
  for (const EngineOptions& other : others) {
    EXPECT_FALSE(from_cache(other));
    EXPECT_EQ(files().size(), ++kept);
  }
}

TEST_F(StepCostsAtStart, DamageIsMeasuredAround) {
  from_cache(options());
  std::ofstream(files().front()) << "{\"forerun_step_costs\": 1,";
  EXPECT_FALSE(from_cache(options()));
  stretch(1e-3);  // readable again
  EXPECT_TRUE(from_cache(options()));
}

TEST_F(StepCostsAtStart, AreNotKeptUnlessAskedFor) {
  EngineOptions none = options();
  none.cost_cache.clear();
  EXPECT_FALSE(from_cache(none));
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace forerun::testing
