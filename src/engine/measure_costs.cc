#include "engine/measure_costs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace forerun {
namespace {

constexpr std::array<int32_t, 11> kRows = {1, 2, 3, 4, 6, 8, 9, 16, 17, 24, 32};
// A context at which small models' attention is neither free nor all there is.
constexpr int32_t kContextTokens = 256;
// A forward slower than this is timed at fewer row counts and fewer times.
constexpr double kSlowSeconds = 0.02;

// The fastest of some runs counts: what else the machine does can only make a Step slower.
class Measurement {
 public:
  Measurement(RealExecutor& executor, bool has_draft, int32_t context_tokens)
      : executor_(executor), has_draft_(has_draft), context_tokens_(context_tokens) {}

  // Adds what Steps of `rows` rows take; returns the slower role's seconds. Roles take turns, as in
  // serving: a small model's weights that would stay in the caches between Steps of its own are
  // read anew after a Step of the other model. Only the target's Steps of one row follow each
  // other: that is plain decoding.
  Result<double> add(int32_t rows, int32_t runs) {
    double target = 0.0;
    double draft = 0.0;
    const bool plain = rows == 1;
    if (plain) FORERUN_RETURN_IF_ERROR(run(Role::kTarget, rows, runs, target));
    for (int32_t turn = 0; turn < runs; ++turn) {
      double after_draft = plain ? 0.0 : target;
      FORERUN_RETURN_IF_ERROR(run(Role::kTarget, rows, 1, after_draft));
      if (!plain) target = after_draft;
      if (has_draft_) FORERUN_RETURN_IF_ERROR(run(Role::kDraft, rows, 1, draft));
    }
    points_.push_back({Role::kTarget, rows, target});
    if (has_draft_) points_.push_back({Role::kDraft, rows, draft});
    return std::max(target, draft);
  }

  const std::vector<CostPoint>& points() const { return points_; }

 private:
  // Lowers `fastest` (0: none yet) to the fastest of `runs`.
  Status run(Role role, int32_t rows, int32_t runs, double& fastest) {
    for (int32_t i = 0; i < runs; ++i) {
      FORERUN_ASSIGN_OR_RETURN(const StepRecord record,
                               executor_.profile(role, rows, context_tokens_));
      const double seconds = record.seconds + record.host_seconds;
      fastest = fastest > 0.0 ? std::min(fastest, seconds) : seconds;
    }
    return {};
  }

  RealExecutor& executor_;
  const bool has_draft_;
  const int32_t context_tokens_;
  std::vector<CostPoint> points_;
};

}  // namespace

Result<CostModel> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress) {
  const int32_t context = std::clamp(max_context_tokens - kRows.back() - 1, 0, kContextTokens);
  Measurement measurement(executor, has_draft, context);
  bool slow = false;
  for (size_t i = 0; i < kRows.size(); ++i) {
    const int32_t rows = kRows[i];
    if (slow && rows != 4 && rows != 8 && rows != 16) continue;
    if (on_progress) {
      on_progress("measuring", static_cast<double>(i) / static_cast<double>(kRows.size()));
    }
    FORERUN_ASSIGN_OR_RETURN(const double seconds, measurement.add(rows, slow ? 3 : 9));
    slow = slow || seconds > kSlowSeconds;
  }
  CostModel model;
  model.fit(measurement.points());
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
