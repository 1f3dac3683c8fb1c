#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "kernels/logits_summary/logits_summary.h"

namespace forerun {
namespace {

// Merges lists of kNoisyTop: the best tokens of the row are among the best tokens of the parts.
void join_lists(std::span<const LogitsSummary* const> parts, LogitsSummary* whole) {
  whole->lists_all = 1;
  for (const LogitsSummary* part : parts) {
    if (part->num_listed < 0 || whole->num_listed + part->num_listed > LogitsSummary::kMaxListed) {
      whole->num_listed = -1;
      whole->lists_all = 0;
      return;
    }
    std::copy_n(part->listed, part->num_listed, whole->listed + whole->num_listed);
    whole->num_listed += part->num_listed;
    if (part->lists_all == 0) whole->lists_all = 0;
  }
}

// Merges lists by logit. Each part lists all of its tokens down to some logit; the row's list goes
// down to the highest of these logits.
void merge_lists(std::span<const LogitsSummary* const> parts, LogitsSummary* whole) {
  float reach = -std::numeric_limits<float>::infinity();
  whole->lists_all = 1;
  for (const LogitsSummary* part : parts) {
    if (part->num_listed < 0) {
      whole->num_listed = -1;
      whole->lists_all = 0;
      return;
    }
    if (part->lists_all != 0) continue;
    whole->lists_all = 0;
    float lowest = std::numeric_limits<float>::infinity();
    for (int32_t i = 0; i < part->num_listed; ++i) {
      if (part->listed[i].logit < lowest) lowest = part->listed[i].logit;
    }
    if (lowest > reach) reach = lowest;
  }
  std::vector<TokenLogit> tokens;
  for (const LogitsSummary* part : parts) {
    std::copy_if(part->listed, part->listed + part->num_listed, std::back_inserter(tokens),
                 [reach](const TokenLogit& token) { return token.logit >= reach; });
  }
  constexpr auto kRoom = static_cast<size_t>(LogitsSummary::kMaxListed);
  if (tokens.size() > kRoom) {
    // Keeps the best tokens that fit; among tokens with equal logits all or none.
    const auto last = tokens.begin() + LogitsSummary::kMaxListed;
    std::nth_element(tokens.begin(), last, tokens.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
    const float left_out = last->logit;
    std::erase_if(tokens, [left_out](const auto& token) { return token.logit <= left_out; });
    whole->lists_all = 0;
  }
  whole->num_listed = static_cast<int32_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), whole->listed);
}

void merge_weights(std::span<const LogitsSummary* const> parts, LogitsSummary* whole) {
  whole->has_weights = 1;
  whole->weight_origin = whole->best.logit;
  whole->weights = 0;
  whole->raw_weights = 0;
  for (const LogitsSummary* part : parts) {
    if (part->best.token < 0) continue;
    if (part->has_weights == 0 || part->weight_origin != whole->weight_origin) {
      whole->has_weights = 0;
    }
    whole->weights += part->weights;
    whole->raw_weights += part->raw_weights;
  }
}

void merge_candidates(std::span<const LogitsSummary* const> parts, LogitsSummary* whole) {
  for (const LogitsSummary* part : parts) {
    if (part->num_candidates < 0 ||
        whole->num_candidates + part->num_candidates > LogitsSummary::kMaxCandidates) {
      whole->num_candidates = -1;
      return;
    }
    for (int32_t i = 0; i < part->num_candidates; ++i) {
      whole->candidates[whole->num_candidates++] = part->candidates[i];
    }
  }
}

}  // namespace

void merge_logits_summaries(std::span<const LogitsSummary* const> parts, LogitsSummary* whole) {
  whole->best = {-std::numeric_limits<float>::infinity(), -1};
  whole->bad = 0;
  whole->num_listed = 0;
  whole->num_candidates = 0;
  whole->by_noise = 0;
  for (const LogitsSummary* part : parts) {
    if (part->bad != 0) whole->bad = 1;
    if (part->by_noise != 0) whole->by_noise = 1;
    if (part->best.token >= 0 && (whole->best.token < 0 || part->best.logit > whole->best.logit)) {
      whole->best = part->best;
    }
  }
  if (whole->bad != 0) return;
  if (whole->by_noise != 0) {
    join_lists(parts, whole);
  } else {
    merge_lists(parts, whole);
  }
  merge_weights(parts, whole);
  merge_candidates(parts, whole);
}

}  // namespace forerun
