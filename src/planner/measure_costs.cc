#include "planner/measure_costs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/status_macros.h"

namespace forerun {
namespace {

constexpr std::array<int32_t, 11> kRows = {1, 2, 3, 4, 6, 8, 9, 16, 17, 24, 32};
// The row counts of prompts and large batches, measured as long as their Steps are brief
// (kBriefSeconds). They lie on both sides of each row count at which a forward pass on a GPU
// becomes a larger one (a larger graph, more passes over the weights): if the table showed that 33
// rows cost only a little more than 32, one request's draft token would push a batch of 32 over
// that edge.
constexpr std::array<int32_t, 10> kManyRows = {25, 33,  48,  49,  64,
                                               65, 128, 129, 256, kMaxMeasuredRows};
constexpr double kBriefSeconds = 0.03;
// A forward pass slower than kSlowSeconds is timed at fewer row counts and fewer times. If its rows
// have cost next to nothing so far (a Step takes less than kRowsHardlyCost times one of a single
// row), larger counts up to kManySlowRows are timed, too: on processors with tiles only these show
// the cost of rows.
constexpr double kSlowSeconds = 0.02;
constexpr double kRowsHardlyCost = 1.5;
constexpr int32_t kManySlowRows = 64;
// The growth of the time with the KV cache is measured by Steps with two context lengths, of one
// row and of several, and by Steps of several sequences, since a GPU reads the cache of a single
// sequence at only a part of its bandwidth. Slow forward passes use the smaller row count, at which
// they are timed anyway.
constexpr int32_t kContextRows = 32;
constexpr int32_t kSlowContextRows = 16;
constexpr int32_t kSequences = 8;
// If plain decoding is slower than this, no further Steps are measured, so that the engine starts
// soon.
constexpr double kTooSlowSeconds = 0.25;

struct Load {
  int32_t rows = 1;  // number of rows of each sequence
  int32_t context = kReferenceContext;
  int32_t sequences = 1;
};

// Times Steps. The fastest of several runs counts, since other work can only make a Step slower.
class Measurement {
 public:
  // Steps have `context` tokens of context, or fewer if their rows would not fit below
  // `max_context`.
  Measurement(RealExecutor& executor, bool has_draft, int32_t context, int32_t max_context)
      : executor_(executor), has_draft_(has_draft), context_(context), max_context_(max_context) {}

  // Times Steps of `rows` rows and records the result; returns the slower role's seconds. Roles
  // take turns, as in serving: between its own Steps, a small model's weights would stay in the
  // processor's caches, but after a Step of the other model they are read again. Only the target's
  // Steps of one row follow each other, since that is plain decoding.
  Result<double> add(int32_t rows, int32_t runs) {
    double target = 0.0;
    double draft = 0.0;
    const Load load{rows, context_of(rows)};
    const bool plain = rows == 1;
    if (plain) FORERUN_RETURN_IF_ERROR(run(Role::kTarget, load, runs, target));
    for (int32_t turn = 0; turn < runs; ++turn) {
      double after_draft = plain ? 0.0 : target;
      FORERUN_RETURN_IF_ERROR(run(Role::kTarget, load, 1, after_draft));
      if (!plain) target = after_draft;
      if (has_draft_) FORERUN_RETURN_IF_ERROR(run(Role::kDraft, load, 1, draft));
    }
    note(Role::kTarget, rows, target);
    if (has_draft_) note(Role::kDraft, rows, draft);
    return std::max(target, draft);
  }

  // Finds the costs that grow with the KV cache; zero if the memory has no room for a longer
  // context.
  Status find_slopes(Role role, int32_t long_context, int32_t runs) {
    StepCosts::Slopes& slopes = slopes_[static_cast<size_t>(role)];
    const int32_t rows = context_rows();
    double one_row_growth = 0.0;
    double many_rows_growth = 0.0;
    FORERUN_RETURN_IF_ERROR(find_growth(role, {.rows = 1}, long_context, runs, one_row_growth));
    FORERUN_RETURN_IF_ERROR(
        find_growth(role, {.rows = rows}, long_context, runs, many_rows_growth));
    double batch_growth = one_row_growth;
    const Load batch = {.rows = 1, .sequences = kSequences};
    const Status in_batch = find_growth(role, batch, long_context, runs, batch_growth);
    if (in_batch.code() != StatusCode::kResourceExhausted) FORERUN_RETURN_IF_ERROR(in_batch);
    // One row costs read + attend for each token of context, `rows` rows cost read + rows * attend.
    slopes.per_attended_token =
        std::clamp((many_rows_growth - one_row_growth) / (rows - 1), 0.0, batch_growth);
    slopes.per_kv_token = batch_growth - slopes.per_attended_token;
    return {};
  }
  // Finds the cost of a further sequence, without its rows and its KV cache. Call it after
  // find_slopes().
  Status find_sequence_cost(Role role, int32_t runs) {
    StepCosts::Slopes& slopes = slopes_[static_cast<size_t>(role)];
    double seconds = 0.0;
    FORERUN_RETURN_IF_ERROR(run(role, {1, context_, kSequences}, runs, seconds));
    const double read = slopes.per_kv_token * (kSequences - 1) * context_;
    slopes.per_sequence =
        std::max(0.0, seconds - read - seconds_at(role, kSequences)) / (kSequences - 1);
    return {};
  }

  // Returns the number of rows of the Steps that show how the time of several rows grows with their
  // context.
  int32_t context_rows() const {
    return seconds_at(Role::kTarget, kContextRows) > 0.0 ? kContextRows : kSlowContextRows;
  }
  double plain_seconds() const { return seconds_at(Role::kTarget, 1); }

  // Returns the measured costs; entries hold the time that the slopes do not explain.
  StepCosts costs() const {
    StepCosts costs;
    for (const Time& time : times_) {
      const StepCosts::Slopes& slopes = slopes_[static_cast<size_t>(time.role)];
      const double sloped =
          context_of(time.rows) * (slopes.per_kv_token + time.rows * slopes.per_attended_token);
      costs.add(time.role, {time.rows}, std::max(time.seconds - sloped, 0.1 * time.seconds));
      costs.set_slopes(time.role, slopes);
    }
    return costs;
  }

 private:
  struct Time {
    Role role = Role::kTarget;
    int32_t rows = 1;
    double seconds = 0.0;
  };

  // Finds the additional seconds of a Step of `load`'s rows and sequences for each token of their
  // contexts. Short and long contexts are timed in turn, so that a drift of the machine's speed
  // affects both equally.
  Status find_growth(Role role, Load load, int32_t long_context, int32_t runs, double& growth) {
    double near = 0.0;
    double far = 0.0;
    for (int32_t turn = 0; turn < runs; ++turn) {
      load.context = context_;
      FORERUN_RETURN_IF_ERROR(run(role, load, 1, near));
      load.context = long_context;
      FORERUN_RETURN_IF_ERROR(run(role, load, 1, far));
    }
    const int64_t tokens = int64_t{load.sequences} * (long_context - context_);
    growth = tokens > 0 ? std::max(0.0, far - near) / static_cast<double>(tokens) : 0.0;
    return {};
  }
  int32_t context_of(int32_t rows) const {
    return std::clamp(max_context_ - rows - 1, 0, context_);
  }
  void note(Role role, int32_t rows, double seconds) { times_.push_back({role, rows, seconds}); }
  // Returns 0 if it has not been measured.
  double seconds_at(Role role, int32_t rows) const {
    for (const Time& time : times_) {
      if (time.role == role && time.rows == rows) return time.seconds;
    }
    return 0.0;
  }
  // Lowers `fastest` (0: none yet) to the fastest of `runs`.
  Status run(Role role, const Load& load, int32_t runs, double& fastest) {
    for (int32_t i = 0; i < runs; ++i) {
      FORERUN_ASSIGN_OR_RETURN(const StepRecord record,
                               executor_.profile(role, load.rows, load.context, load.sequences));
      const double seconds = record.seconds + record.host_seconds;
      fastest = fastest > 0.0 ? std::min(fastest, seconds) : seconds;
    }
    return {};
  }

  RealExecutor& executor_;
  const bool has_draft_;
  const int32_t context_;
  const int32_t max_context_;
  std::vector<Time> times_;
  std::array<StepCosts::Slopes, kNumRoles> slopes_;
};

// Ignores a lack of memory for a long context or several sequences: these terms are then zero.
Status unless_exhausted(Status status) {
  return status.code() == StatusCode::kResourceExhausted ? Status() : status;
}

}  // namespace

Result<StepCosts> measure_costs(RealExecutor& executor, bool has_draft, int32_t max_context_tokens,
                                const ProgressCallback& on_progress) {
  const int32_t context = std::clamp(max_context_tokens - kRows.back() - 1, 0, kReferenceContext);
  Measurement measurement(executor, has_draft, context, max_context_tokens);
  const auto report = [&](size_t done) {
    constexpr auto kAll = static_cast<double>(kRows.size() + kManyRows.size() + 1);
    if (on_progress) on_progress("measuring", static_cast<double>(done) / kAll);
  };
  bool slow = false;
  double seconds = 0.0;
  const auto rows_hardly_cost = [&] {
    return seconds < kRowsHardlyCost * measurement.plain_seconds();
  };
  for (size_t i = 0; i < kRows.size(); ++i) {
    const int32_t rows = kRows[i];
    const bool few = rows == 4 || rows == 8 || rows == 16;
    if (slow && !few && !(rows == kRows.back() && rows_hardly_cost())) continue;
    report(i);
    FORERUN_ASSIGN_OR_RETURN(seconds, measurement.add(rows, slow ? 3 : 9));
    slow = slow || seconds > kSlowSeconds;
  }
  if (slow && rows_hardly_cost() && kManySlowRows < max_context_tokens) {
    FORERUN_ASSIGN_OR_RETURN(seconds, measurement.add(kManySlowRows, 3));
  }
  for (size_t i = 0; !slow && i < kManyRows.size() && 2.0 * seconds < kBriefSeconds; ++i) {
    if (kManyRows[i] >= max_context_tokens) break;
    report(kRows.size() + i);
    FORERUN_ASSIGN_OR_RETURN(seconds, measurement.add(kManyRows[i], 3));
  }
  if (measurement.plain_seconds() > kTooSlowSeconds) return measurement.costs();
  report(kRows.size() + kManyRows.size());
  const int32_t runs = slow ? 3 : 5;
  const int32_t long_context = std::min(kMaxMeasuredContext, max_context_tokens - kContextRows - 1);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (role == Role::kDraft && !has_draft) continue;
    if (long_context >= 2 * context) {
      FORERUN_RETURN_IF_ERROR(unless_exhausted(measurement.find_slopes(role, long_context, runs)));
    }
    FORERUN_RETURN_IF_ERROR(unless_exhausted(measurement.find_sequence_cost(role, runs)));
  }
  return measurement.costs();
}

std::string describe_costs(const StepCosts& costs) {
  std::string out = "ms a step at rows   ";
  const auto number = [&](const char* format, double value) {
    std::array<char, 32> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, value);
    out += buffer.data();
  };
  for (const int32_t rows : kRows) number("%8.0f", rows);
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (!costs.has(role)) continue;
    out += role == Role::kTarget ? "\n  target            " : "\n  draft             ";
    for (const int32_t rows : kRows) {
      number("%8.3f", 1000.0 * costs.seconds(role, even_load(1, rows, kReferenceContext)));
    }
  }
  return out + "\n";
}

}  // namespace forerun
