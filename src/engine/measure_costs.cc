#include "engine/measure_costs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace forerun {
namespace {

constexpr std::array<int32_t, 8> kRows = {1, 2, 3, 4, 6, 8, 16, 32};
// A context at which small models' attention is neither free nor all there is.
constexpr int32_t kContextTokens = 256;
// A forward slower than this is timed at fewer row counts and fewer times.
constexpr double kSlowSeconds = 0.02;

// Times Steps of every role in turn, as serving does: a small model's weights that would stay in
// the caches between Steps of its own are read anew after a Step of the other model.
struct Measurement {
  RealExecutor& executor;
  std::vector<Role> roles;
  int32_t context_tokens;

  // Adds the fastest of some runs of each role: what else the machine does can only make a Step
  // slower. Returns the slowest role's.
  Result<double> add(int32_t rows, int32_t runs, std::vector<CostPoint>& points) const {
    std::array<double, kNumRoles> fastest{};
    for (int32_t run = 0; run < runs; ++run) {
      for (const Role role : roles) {
        FORERUN_ASSIGN_OR_RETURN(const StepRecord record,
                                 executor.profile(role, rows, context_tokens));
        const double seconds = record.seconds + record.host_seconds;
        double& best = fastest[static_cast<size_t>(role)];
        best = run == 0 ? seconds : std::min(best, seconds);
      }
    }
    for (const Role role : roles)
      points.push_back({role, rows, fastest[static_cast<size_t>(role)]});
    return *std::max_element(fastest.begin(), fastest.end());
  }
};

}  // namespace

Result<CostModel> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress) {
  const int32_t context = std::clamp(max_context_tokens - kRows.back() - 1, 0, kContextTokens);
  Measurement measurement{executor, {Role::kTarget}, context};
  if (has_draft) measurement.roles.push_back(Role::kDraft);
  std::vector<CostPoint> points;
  bool slow = false;
  for (size_t i = 0; i < kRows.size(); ++i) {
    const int32_t rows = kRows[i];
    if (slow && rows != 4 && rows != 8 && rows != 16) continue;
    if (on_progress) {
      on_progress("measuring", static_cast<double>(i) / static_cast<double>(kRows.size()));
    }
    FORERUN_ASSIGN_OR_RETURN(const double seconds, measurement.add(rows, slow ? 3 : 9, points));
    slow = slow || seconds > kSlowSeconds;
  }
  CostModel model;
  model.fit(points);
  return model;
}

CostModel costs_of(const StepProfile& profile) {
  std::vector<CostPoint> points;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (!profile.has(role)) continue;
    for (const int32_t rows : CostModel::kKnots) {
      points.push_back({role, rows, profile.seconds(role, {rows, kContextTokens})});
    }
  }
  CostModel model;
  model.fit(points);
  return model;
}

std::string describe_costs(const CostTable& costs, bool has_draft) {
  std::string out = "ms a step at rows   ";
  const auto number = [&](const char* format, double value) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, value);
    out += buffer.data();
  };
  for (const int32_t rows : kRows) number("%8.0f", rows);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (role == Role::kDraft && !has_draft) continue;
    out += role == Role::kTarget ? "\n  target            " : "\n  draft             ";
    for (const int32_t rows : kRows) number("%8.3f", 1000.0 * costs.at(role, rows));
  }
  return out + "\n";
}

}  // namespace forerun
