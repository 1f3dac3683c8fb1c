#include "strategies/acceptance.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

constexpr float kMaxAcceptance = 0.98f;
constexpr float kMaxTogether = 0.99f;  // bound on the sum over one token's guesses
// The number of guesses after which observations have faded, and the weight of a prior in expected
// accepted guesses.
constexpr float kRequestMemory = 60.0f;
constexpr float kSharedMemory = 600.0f;
constexpr float kRequestStrength = 3.0f;
constexpr float kSharedStrength = 2.0f;
// The factor f before any guess of an origin has been observed. A source reports how often the text
// has continued like this before, which is too optimistic if tokens are sampled. Learning costs
// nothing, since guesses are compared with the target's tokens whether they are verified or not.
constexpr std::array<float, CalibrationTable::kOrigins> kPriors = {1.0f, 0.6f, 1.0f};
constexpr float kMinFactor = 0.02f;
constexpr float kMaxFactor = 20.0f;
constexpr float kProfileMemory = 24.0f;
constexpr float kSharedProfileMemory = 200.0f;
// The weight of a profile's initial means, in observations.
constexpr float kProfileStrength = 3.0f;

constexpr float kMinLogprob = -20.7f;  // smallest logprob of a guess: a billionth

constexpr uint32_t kProbabilitySteps = (1u << 20) - 1;

}  // namespace

int32_t CalibrationTable::bucket_of(float p) {
  // The smallest probability of every bucket but the first.
  static const auto kBounds = [] {
    std::array<float, kBuckets - 1> bounds{};
    for (int32_t bucket = 1; bucket < kBuckets; ++bucket) {
      const double log_odds = -5.0 + 10.0 * bucket / kBuckets;
      bounds[static_cast<size_t>(bucket - 1)] =
          static_cast<float>(1.0 / (1.0 + std::exp(-log_odds)));
    }
    return bounds;
  }();
  int32_t bucket = 0;
  for (const float bound : kBounds) bucket += p >= bound ? 1 : 0;
  return bucket;
}

void CalibrationTable::observe(Guess::Origin origin, int32_t bucket, float p, bool right,
                               float memory) {
  Cell& cell = cells_[static_cast<size_t>(origin)][static_cast<size_t>(bucket)];
  const float fade = 1.0f - 1.0f / memory;
  cell.right = cell.right * fade + (right ? 1.0f : 0.0f);
  cell.expected = cell.expected * fade + p;
}

float CalibrationTable::factor(Guess::Origin origin, int32_t bucket, float prior,
                               float strength) const {
  const Cell& cell = cells_[static_cast<size_t>(origin)][static_cast<size_t>(bucket)];
  const float f = (cell.right + strength * prior) / (cell.expected + strength);
  return std::clamp(f, kMinFactor, kMaxFactor);
}

DraftProfile::DraftProfile() {
  seen_.fill(kProfileStrength);
  const std::array<float, kContexts> best = {0.55f, 0.35f, 0.45f, 0.6f, 0.75f};
  for (size_t context = 0; context < best.size(); ++context) {
    float left = 1.0f - best[context];
    means_[context][0] = best[context];
    for (size_t rank = 1; rank < kRanks; ++rank) {
      means_[context][rank] = 0.3f * left;
      left *= 0.7f;
    }
  }
}

int32_t DraftProfile::context_of(bool is_root, float p) {
  if (is_root) return 0;
  if (p < 0.3f) return 1;
  if (p < 0.6f) return 2;
  return p < 0.85f ? 3 : 4;
}

void DraftProfile::observe(int32_t context, const std::array<float, kRanks>& chances,
                           float memory) {
  auto& means = means_[static_cast<size_t>(context)];
  float& seen = seen_[static_cast<size_t>(context)];
  seen = std::min(seen + 1.0f, memory);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    means[rank] += (chances[rank] - means[rank]) / seen;
  }
}

void DraftProfile::weaken() {
  for (float& seen : seen_) seen = std::min(seen, kProfileStrength);
}

Acceptance::Acceptance(std::shared_ptr<SharedAcceptance> shared)
    : shared_(shared ? std::move(shared) : std::make_shared<SharedAcceptance>()),
      profile_(shared_->profile) {
  profile_.weaken();
}

uint32_t Acceptance::make_note(Guess::Origin origin, float p) {
  const auto steps = static_cast<uint32_t>(
      std::clamp(p, 0.0f, 1.0f) * static_cast<float>(kProbabilitySteps) + 0.5f);
  const auto bucket = static_cast<uint32_t>(CalibrationTable::bucket_of(p));
  return static_cast<uint32_t>(origin) << 28 | bucket << 20 | steps;
}

namespace {

struct NoteParts {
  Guess::Origin origin;
  int32_t bucket;
  float p;
};

NoteParts parts_of(uint32_t note) {
  return {static_cast<Guess::Origin>(note >> 28), static_cast<int32_t>(note >> 20 & 0xff),
          static_cast<float>(note & kProbabilitySteps) / static_cast<float>(kProbabilitySteps)};
}

}  // namespace

float Acceptance::calibrated(uint32_t note) const {
  const NoteParts guess = parts_of(note);
  return std::min(guess.p * factor(guess.origin, guess.bucket), kMaxAcceptance);
}

float Acceptance::factor(Guess::Origin origin, int32_t bucket) const {
  const float prior =
      shared_->table.factor(origin, bucket, kPriors[static_cast<size_t>(origin)], kSharedStrength);
  return table_.factor(origin, bucket, prior, kRequestStrength);
}

void Acceptance::weigh(std::vector<Guess>& guesses) const {
  static const float kMaxLogprob = std::log(kMaxAcceptance);
  float sum = 0.0f;
  // Neighbours are mostly of one kind, so the factor of a kind is kept for the next guess.
  uint32_t kind = 0;
  float of_kind = 0.0f, log_of_kind = 0.0f;
  for (Guess& guess : guesses) {
    const float p = std::exp(guess.logprob);
    guess.note = make_note(guess.origin, p);
    const uint32_t its_kind = guess.note & ~kProbabilitySteps;
    if (of_kind == 0.0f || its_kind != kind) {
      const NoteParts parts = parts_of(guess.note);
      kind = its_kind;
      of_kind = factor(parts.origin, parts.bucket);
      log_of_kind = std::log(of_kind);
    }
    sum += std::min(p * of_kind, kMaxAcceptance);
    guess.logprob = std::clamp(guess.logprob + log_of_kind, kMinLogprob, kMaxLogprob);
  }
  if (sum > kMaxTogether) {
    const float excess = std::log(sum / kMaxTogether);
    for (Guess& guess : guesses) guess.logprob -= excess;
  }
  // Insertion sort, since the guesses are few and nearly in order; equal ones keep their order.
  for (auto next = guesses.begin(); next != guesses.end(); ++next) {
    const auto place =
        std::upper_bound(guesses.begin(), next, *next,
                         [](const Guess& a, const Guess& b) { return a.logprob > b.logprob; });
    std::rotate(place, next, next + 1);
  }
}

void Acceptance::observe(uint32_t note, bool right) {
  const NoteParts guess = parts_of(note);
  table_.observe(guess.origin, guess.bucket, guess.p, right, kRequestMemory);
  shared_->table.observe(guess.origin, guess.bucket, guess.p, right, kSharedMemory);
}

void Acceptance::observe_profile(int32_t context,
                                 const std::array<float, DraftProfile::kRanks>& chances) {
  profile_.observe(context, chances, kProfileMemory);
  shared_->profile.observe(context, chances, kSharedProfileMemory);
}

}  // namespace forerun
