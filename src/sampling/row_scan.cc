#include "sampling/row_scan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/status_macros.h"
#include "sampling/logits_processor.h"

namespace forerun {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

// Returns a logit that at least `limit` of the lane maxima reach; kLowest if all lanes would be
// needed.
float reach_of(std::span<const float> lane_max, float part_max, int32_t limit) {
  if (static_cast<size_t>(limit) >= lane_max.size()) return kLowest;
  // Buckets of one eighth below the maximum; the last bucket has the rest.
  constexpr size_t kBuckets = 256;
  std::array<int32_t, kBuckets> histogram{};
  const auto bucket_of = [part_max](float logit) {
    const float depth = (part_max - logit) * 8.0f;
    return depth < static_cast<float>(kBuckets - 1) ? static_cast<size_t>(depth) : kBuckets - 1;
  };
  for (float logit : lane_max) ++histogram[bucket_of(logit)];
  size_t last = 0;
  for (int32_t seen = histogram[0]; seen < limit; seen += histogram[++last]) {
  }
  if (last == kBuckets - 1) return kLowest;
  float reach = part_max;
  for (float logit : lane_max) {
    if (bucket_of(logit) <= last) reach = std::min(reach, logit);
  }
  return reach;
}

// Returns false if a logit is NaN or +inf.
bool scan_lanes(std::span<const float> values, std::vector<float>& lane_max) {
  const auto count = static_cast<int64_t>(values.size());
  lane_max.resize(static_cast<size_t>((count + kScanBlock - 1) / kScanBlock * kScanLanes));
  return scan_kernels().lane_max(values.data(), count, lane_max.data());
}

// Returns the best token of a part that has no NaN and no +inf.
RankedToken best_of_lanes(const LogitsRow& logits, std::span<const float> lane_max) {
  const auto top = std::max_element(lane_max.begin(), lane_max.end());
  if (top == lane_max.end() || *top < kLowest) return {-kInfinity, -1};
  // max_element returns the first lane; an equal logit may come earlier in another lane of the same
  // block, so the block is searched in order.
  size_t offset = static_cast<size_t>((top - lane_max.begin()) / kScanLanes * kScanBlock);
  while (logits.values[offset] != *top) ++offset;
  return {*top, logits.first_token + static_cast<TokenId>(offset)};
}

}  // namespace

Status RowScan::start(const LogitsRow& logits, int32_t position, std::vector<float>* lane_max,
                      const RowEditor& editor) {
  logits_ = logits;
  lane_max_ = lane_max;
  editor_ = editor;
  summary_ = logits.summary();
  query_ = summary_ == nullptr ? nullptr : &logits.query();
  const bool is_of_edited = query_ != nullptr && query_->edits != RowQuery::kNone;
  if (summary_ == nullptr || is_of_edited != (editor.context != nullptr)) {
    FORERUN_RETURN_IF_ERROR(fetch());
  }
  bool good = true;
  if (summary_ != nullptr) {
    good = summary_->bad == 0;
    part_best_ = summary_->best;
  } else {
    good = scan_lanes(logits_.values, *lane_max);
    part_best_ = good ? best_of_lanes(logits_, *lane_max) : RankedToken{-kInfinity, -1};
  }
  struct Part {
    RankedToken best;
    int32_t good;
  };
  bool all_good = true;
  best_ = {-kInfinity, -1};
  for_each_part(logits, Part{part_best_, good ? 1 : 0}, [&](const Part& part) {
    all_good = all_good && part.good != 0;
    // Parts are in the order of their ids, so an equal logit is later.
    if (part.best.token >= 0 && (best_.token < 0 || part.best.logit > best_.logit)) {
      best_ = part.best;
    }
  });
  if (!all_good) {
    return Status(StatusCode::kInvalidArgument,
                  "the logits for position " + std::to_string(position) +
                      " hold NaN or +inf; accepted: finite numbers and -inf; are the "
                      "checkpoint's weights damaged?");
  }
  if (best_.token < 0) {
    return Status(StatusCode::kInvalidArgument, "every one of " + std::to_string(logits.vocab) +
                                                    " tokens is masked (-inf) at position " +
                                                    std::to_string(position));
  }
  return {};
}

Status RowScan::fetch() {
  if (summary_ != nullptr) FORERUN_RETURN_IF_ERROR(logits_.fetch());
  summary_ = nullptr;
  query_ = nullptr;
  if (editor_.context != nullptr) {
    logits_.values = edited_logits(logits_, *editor_.context, *editor_.scratch);
  }
  return {};
}

Status RowScan::read() {
  if (summary_ == nullptr) return {};
  FORERUN_RETURN_IF_ERROR(fetch());
  scan_lanes(logits_.values, *lane_max_);
  return {};
}

std::span<const RankedToken> RowScan::listed() const {
  if (summary_->by_noise != 0) return {};
  return {summary_->listed, static_cast<size_t>(std::max(summary_->num_listed, int32_t{0}))};
}

bool RowScan::lists_all() const { return summary_->by_noise == 0 && summary_->lists_all != 0; }

Status RowScan::logit(TokenId token, float* logit) {
  if (summary_ != nullptr) {
    const auto is_it = [token](const RankedToken& other) { return other.token == token; };
    const auto candidates =
        std::span(summary_->candidates)
            .first(static_cast<size_t>(std::max(summary_->num_candidates, int32_t{0})));
    for (const std::span<const RankedToken> known :
         {std::span<const RankedToken>(&summary_->best, 1),
          std::span<const RankedToken>(candidates), listed()}) {
      const auto found = std::find_if(known.begin(), known.end(), is_it);
      if (found == known.end()) continue;
      *logit = found->logit;
      return {};
    }
    FORERUN_RETURN_IF_ERROR(read());
  }
  *logit = logits_.at(token);
  return {};
}

Status RowScan::weight_sum(ScoreScale scale, uint64_t* sum) {
  if (summary_ != nullptr) {
    const auto has = [&](uint32_t kind) { return (query_->kinds & kind) != 0; };
    if (summary_->best.token < 0) {
      *sum = 0;
      return {};
    }
    if (summary_->has_weights != 0 && summary_->weight_origin == scale.max_logit) {
      if (has(RowQuery::kRawWeights) && scale.inv_temperature == 1.0f) {
        *sum = summary_->raw_weights;
        return {};
      }
      if (has(RowQuery::kWeights) && scale.inv_temperature == query_->inv_temperature) {
        *sum = summary_->weights;
        return {};
      }
    }
    FORERUN_RETURN_IF_ERROR(read());
  }
  *sum = scan_kernels().exp_weights(logits_.values.data(),
                                    static_cast<int64_t>(logits_.values.size()), scale, nullptr);
  return {};
}

Status RowScan::at_least(float reach, std::vector<int32_t>& ids, std::vector<RankedToken>& out) {
  out.clear();
  if (summary_ != nullptr) {
    // If a listed token is below it, all tokens above it are listed.
    bool all = lists_all();
    for (const RankedToken& token : listed()) {
      if (token.logit >= reach) {
        out.push_back(token);
      } else {
        all = true;
      }
    }
    if (all) return {};
    out.clear();
    FORERUN_RETURN_IF_ERROR(read());
  }
  ids.resize(logits_.values.size());
  const int32_t found =
      scan_kernels().collect(logits_.values.data(), static_cast<int64_t>(logits_.values.size()),
                             lane_max_->data(), std::max(reach, kLowest), ids.data());
  for (int32_t index = 0; index < found; ++index) {
    const TokenId token = logits_.first_token + ids[static_cast<size_t>(index)];
    out.push_back({logits_.at(token), token});
  }
  return {};
}

Status RowScan::best_tokens(int32_t limit, std::vector<int32_t>& ids,
                            std::vector<RankedToken>& out) {
  out.clear();
  if (part_best_.token < 0) return {};  // all tokens are masked, or there are none
  if (summary_ != nullptr) {
    const std::span<const RankedToken> known = listed();
    if (lists_all() || known.size() >= static_cast<size_t>(limit)) {
      out.assign(known.begin(), known.end());
      keep_best(out, limit, false);
      return {};
    }
    FORERUN_RETURN_IF_ERROR(read());
  }
  FORERUN_RETURN_IF_ERROR(at_least(reach_of(*lane_max_, part_best_.logit, limit), ids, out));
  keep_best(out, limit, false);
  return {};
}

bool RowScan::asked_for_noise(const RowQuery& query) const {
  const RowQuery& asked = *query_;
  return asked.inv_temperature == query.inv_temperature && asked.seed_low == query.seed_low &&
         asked.seed_high == query.seed_high && asked.position == query.position;
}

bool RowScan::listed_by_noise(const RowQuery& candidates,
                              std::span<const RankedToken>* tokens) const {
  if (summary_ == nullptr) return false;
  const bool suffices = summary_->num_listed >= candidates.top ||
                        (summary_->num_listed >= 0 && summary_->lists_all != 0);
  if (summary_->by_noise == 0 || !suffices || query_->top < candidates.top ||
      !asked_for_noise(candidates)) {
    return false;
  }
  *tokens = std::span(summary_->listed).first(static_cast<size_t>(summary_->num_listed));
  return true;
}

bool RowScan::candidates_for_draw(const RowQuery& draw,
                                  std::span<const RankedToken>* tokens) const {
  if (summary_ == nullptr || summary_->num_candidates <= 0) return false;
  if ((query_->kinds & RowQuery::kNoise) == 0 || !asked_for_noise(draw)) return false;
  *tokens = std::span(summary_->candidates).first(static_cast<size_t>(summary_->num_candidates));
  return true;
}

}  // namespace forerun
