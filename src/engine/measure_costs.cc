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

// The fastest of some runs: what else the machine does can only make a Step slower.
Result<double> fastest_step(RealExecutor& executor, Role role, int32_t rows, int32_t context_tokens,
                            int32_t runs) {
  double fastest = 0.0;
  for (int32_t run = 0; run < runs; ++run) {
    FORERUN_ASSIGN_OR_RETURN(const StepRecord record,
                             executor.profile(role, rows, context_tokens, 1));
    const double seconds = record.seconds + record.host_seconds;
    fastest = run == 0 ? seconds : std::min(fastest, seconds);
  }
  return fastest;
}

Status time_role(RealExecutor& executor, Role role, int32_t context_tokens,
                 std::vector<CostPoint>& points) {
  bool slow = false;
  for (const int32_t rows : kRows) {
    if (slow && rows != 4 && rows != 8 && rows != 16) continue;
    FORERUN_ASSIGN_OR_RETURN(const double seconds,
                             fastest_step(executor, role, rows, context_tokens, slow ? 3 : 9));
    slow = slow || seconds > kSlowSeconds;
    points.push_back({role, rows, seconds});
  }
  return Status();
}

}  // namespace

Result<CostModel> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress) {
  const int32_t context = std::clamp(max_context_tokens - kRows.back() - 1, 0, kContextTokens);
  std::vector<CostPoint> points;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (role == Role::kDraft && !has_draft) continue;
    if (on_progress) {
      on_progress(std::string("measuring ") + role_name(role), role == Role::kTarget ? 0.3 : 0.8);
    }
    FORERUN_RETURN_IF_ERROR(time_role(executor, role, context, points));
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
