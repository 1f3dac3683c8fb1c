#include "planner/arm_rates.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

// Weight of the assumed noise, in measurements.
constexpr double kNoisePrior = 6.0;
// Number of measurements of one load that count: after this many new ones, a change is believed.
constexpr double kMaxWeight = 25.0;
// Number of measurements from which the noise is estimated.
constexpr double kNoiseMemory = 30.0;
constexpr double kBucketsPerOctave = 2.0;
// Number of loads per arm that are kept, and the weight below which a load is dropped.
constexpr size_t kMaxKept = 64;
constexpr double kMinKept = 0.05;
constexpr double kOctavesOfARestart = 1.0;

double octaves(int64_t value) {
  return std::log2(static_cast<double>(std::max<int64_t>(value, 1)));
}

int32_t bucket(double octaves) {
  return static_cast<int32_t>(std::lround(kBucketsPerOctave * octaves));
}

}  // namespace

ArmRates::ArmRates(std::vector<Belief> priors, Options options) : options_(options) {
  for (const Belief& prior : priors) arms_.emplace_back().prior = prior;
}

double ArmRates::weight_now(const Cell& cell) const {
  return cell.weight * std::exp((cell.at - now_) / options_.memory_seconds);
}

double ArmRates::noise_variance(const Arm& arm) const {
  const double assumed = options_.noise * options_.noise;
  const double seen = (kNoisePrior * assumed + arm.noise_weight * arm.noise_variance) /
                      (kNoisePrior + arm.noise_weight);
  return std::max({seen, arm.inner_variance, options_.min_noise * options_.min_noise});
}

void ArmRates::add(int32_t arm, const BatchLoad& load, double ratio, double deviation) {
  Arm& to = arms_[static_cast<size_t>(arm)];
  const double seen = std::log(ratio);
  const double sequences = octaves(load.sequences);
  const double context = octaves(load.context_tokens);
  Cell& cell = to.cells[{bucket(sequences), bucket(context)}];
  const double before = std::min(weight_now(cell), kMaxWeight - 1.0);
  if (before > 0.5) {
    // Two measurements of one load differ by the noise of both.
    const double difference = seen - cell.mean;
    const double variance = difference * difference * before / (before + 1.0);
    to.noise_variance += (variance - to.noise_variance) / (to.noise_weight + 1.0);
    to.noise_weight = std::min(to.noise_weight + 1.0, kNoiseMemory);
  }
  to.inner_weight = std::min(to.inner_weight + 1.0, kNoiseMemory);
  to.inner_variance += (deviation * deviation - to.inner_variance) / to.inner_weight;
  const double share = 1.0 / (before + 1.0);
  cell.mean += share * (seen - cell.mean);
  cell.octaves_of_sequences += share * (sequences - cell.octaves_of_sequences);
  cell.octaves_of_context += share * (context - cell.octaves_of_context);
  cell.weight = before + 1.0;
  cell.at = now_;
}

void ArmRates::pass(double seconds) { now_ += seconds; }

ArmRates::Belief ArmRates::belief(int32_t arm, const BatchLoad& load) const {
  const Arm& of = arms_[static_cast<size_t>(arm)];
  const double noise = noise_variance(of);
  double precision = 1.0 / (of.prior.deviation * of.prior.deviation);
  double sum = precision * of.prior.mean;
  const double sequences = octaves(load.sequences);
  const double context = octaves(load.context_tokens);
  for (const auto& [key, cell] : of.cells) {
    const double weight = weight_now(cell);
    if (weight < 1e-3) continue;
    const double distance =
        std::hypot(sequences - cell.octaves_of_sequences, context - cell.octaves_of_context);
    const double drift = options_.drift * distance;
    const double known = 1.0 / (noise / weight + drift * drift);
    precision += known;
    sum += known * cell.mean;
  }
  return {sum / precision, std::sqrt(1.0 / precision)};
}

std::vector<MeasuredArm> ArmRates::measured() const {
  std::vector<MeasuredArm> kept;
  for (const Arm& arm : arms_) {
    MeasuredArm& to = kept.emplace_back();
    to.noise = std::sqrt(arm.noise_variance);
    to.noise_count = arm.noise_weight;
    to.spread = std::sqrt(arm.inner_variance);
    to.spread_count = arm.inner_weight;
    for (const auto& [key, cell] : arm.cells) {
      const double weight = weight_now(cell);
      if (weight < kMinKept) continue;
      to.loads.push_back({.sequences = std::exp2(cell.octaves_of_sequences),
                          .context_tokens = std::exp2(cell.octaves_of_context),
                          .ratio = std::exp(cell.mean),
                          .count = weight});
    }
    std::stable_sort(
        to.loads.begin(), to.loads.end(),
        [](const MeasuredLoad& a, const MeasuredLoad& b) { return a.count > b.count; });
    if (to.loads.size() > kMaxKept) to.loads.resize(kMaxKept);
  }
  return kept;
}

void ArmRates::recall(const std::vector<MeasuredArm>& arms) {
  for (size_t arm = 0; arm < arms_.size() && arm < arms.size(); ++arm) {
    Arm& to = arms_[arm];
    to.noise_weight = std::min(arms[arm].noise_count, kNoiseMemory);
    to.noise_variance = arms[arm].noise * arms[arm].noise;
    to.inner_weight = std::min(arms[arm].spread_count, kNoiseMemory);
    to.inner_variance = arms[arm].spread * arms[arm].spread;
    const double noise = noise_variance(to);
    const double drift = kOctavesOfARestart * options_.drift;
    for (const MeasuredLoad& load : arms[arm].loads) {
      Cell cell;
      cell.octaves_of_sequences = std::log2(load.sequences);
      cell.octaves_of_context = std::log2(load.context_tokens);
      cell.mean = std::log(load.ratio);
      const double counted = std::min(load.count, kMaxWeight);
      cell.weight = noise / (noise / counted + drift * drift);
      cell.at = now_;
      to.cells[{bucket(cell.octaves_of_sequences), bucket(cell.octaves_of_context)}] = cell;
    }
  }
}

}  // namespace forerun
