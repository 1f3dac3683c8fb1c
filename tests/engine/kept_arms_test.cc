// What `auto` has measured of its arms outlives the engine; whatever a later engine finds in its
// place, the tokens are those of plain decoding.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/sanitized.h"
#include "forerun/engine.h"
#include "planner/arm_file.h"
#include "planner/cost_file.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

namespace fs = std::filesystem;

class KeptArmsTest : public ::testing::Test {
 protected:
  KeptArmsTest() { fs::remove_all(folder_); }
  ~KeptArmsTest() override {
    set_log_sink({});
    fs::remove_all(folder_);
  }

  std::unique_ptr<Engine> engine() {
    EngineOptions options;
    options.model = pair_.target();
    options.draft = pair_.draft();
    options.devices = device_;
    options.cost_cache = folder_.string();
    return create_engine(options);
  }
  // Two requests together, one of them sampled.
  static std::vector<std::vector<int32_t>> tokens_of(Engine& engine, const std::string& strategy) {
    std::vector<std::shared_ptr<RequestStream>> running;
    for (int32_t idx = 0; idx < 2; ++idx) {
      Request request;
      for (int32_t token = 0; token < 12; ++token) {
        request.prompt_tokens.push_back(1 + (token * (idx + 3) + token * token) % 255);
      }
      request.max_new_tokens = 200;
      request.ignore_eos = true;
      request.sampling.temperature = idx == 0 ? 0.0f : 0.8f;
      request.sampling.seed = 5;
      request.speculation = SpeculationOptions{.strategy = strategy};
      auto stream = engine.submit(std::move(request));
      EXPECT_TRUE(stream.ok()) << stream.status().message();
      if (stream.ok()) running.push_back(*stream);
    }
    std::vector<std::vector<int32_t>> tokens;
    for (const auto& stream : running) tokens.push_back(drain(*stream).tokens);
    return tokens;
  }
  static bool recalls(const Engine& engine) {
    return engine.info().planner_report.find("arms as measured by an earlier start") !=
           std::string::npos;
  }
  // The only file of a folder; empty if there is none.
  static fs::path file_of(const fs::path& folder) {
    if (!fs::exists(folder)) return {};
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_regular_file()) return entry.path();
    }
    return {};
  }
  fs::path file() const { return file_of(folder_ / "arms"); }
  static std::string content(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  // Makes Steps seem so short that no start finds the machine quieter than it was, and measures
  // anew.
  void shorten_steps() const {
    const fs::path file = file_of(folder_);
    const auto kept = parse_cost_file(content(file), "costs");
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    StepCosts costs;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      for (const StepCosts::Entry& entry : kept->costs.entries(role)) {
        costs.add(role, {entry.rows, entry.kv_tokens}, 1e-2 * entry.seconds);
      }
    }
    std::ofstream(file, std::ios::trunc) << write_cost_file({kept->key, costs});
  }

  const ToyPair pair_{drafted_toy()};
  const std::string device_ = one_processor();  // files are kept for each placement
  const fs::path folder_ = fs::path(::testing::TempDir()) / "forerun_kept_arms_test";
};

TEST_F(KeptArmsTest, OutliveTheEngineAndNeverChangeAToken) {
  if (kSanitized) GTEST_SKIP() << "Steps take so long that a start may choose other arms";
  {
    const auto first = engine();
    ASSERT_NE(first, nullptr);
    EXPECT_FALSE(recalls(*first));
  }
  EXPECT_TRUE(file().empty());  // nothing was measured
  shorten_steps();              // all starts from here on know the same costs
  for (int32_t attempt = 0; attempt < 20 && file().empty(); ++attempt) {
    const auto made = engine();
    ASSERT_NE(made, nullptr);
    tokens_of(*made, "auto");
  }
  const fs::path kept = file();
  ASSERT_FALSE(kept.empty());
  const std::string good = content(kept);
  const auto read = parse_arm_file(good, "kept");
  ASSERT_TRUE(read.ok()) << read.status().message();

  std::vector<std::string> texts = {good, good.substr(0, good.size() / 2), "",
                                    "{\"forerun_arms\": 2}", "no JSON"};
  // Each arm in turn is said to be far better, or far worse, than all others.
  for (size_t arm = 0; arm < read->measured.arms.size(); ++arm) {
    for (const double ratio : {0.03, 30.0}) {
      ArmFile wrong = *read;
      for (MeasuredArm& each : wrong.measured.arms) {
        each.loads = {{.sequences = 2, .context_tokens = 100, .ratio = 1.0, .count = 25}};
      }
      wrong.measured.arms[arm].loads[0].ratio = ratio;
      texts.push_back(write_arm_file(wrong));
    }
  }
  std::vector<std::vector<int32_t>> plain;
  for (const std::string& text : texts) {
    std::ofstream(kept, std::ios::trunc) << text;
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    const auto made = engine();
    set_log_sink({});
    ASSERT_NE(made, nullptr);
    const bool is_good = parse_arm_file(text, "text").ok();
    EXPECT_EQ(recalls(*made), is_good) << text.substr(0, 80);
    ASSERT_EQ(lines.size(), is_good ? 0u : 1u) << text.substr(0, 80);
    if (plain.empty()) plain = tokens_of(*made, "autoregressive");
    EXPECT_EQ(tokens_of(*made, "auto"), plain) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace forerun::testing
