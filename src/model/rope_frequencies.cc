#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace forerun {
namespace {

// Scales a frequency as in llama3: wavelengths beyond the low-frequency bound are stretched by the
// factor, those below the high-frequency bound stay, and those between are blended.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double original = scaling.original_max_position;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double blend = (original / wavelength - scaling.low_freq_factor) /
                       (static_cast<double>(scaling.high_freq_factor) - scaling.low_freq_factor);
  return (1.0 - blend) * frequency / scaling.factor + blend * frequency;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_magnitude(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  // A zero counts as absent.
  if (scaling.mscale.value_or(0.0f) != 0.0f && scaling.mscale_all_dim.value_or(0.0f) != 0.0f) {
    return yarn_mscale(scaling.factor, *scaling.mscale) /
           yarn_mscale(scaling.factor, *scaling.mscale_all_dim);
  }
  return yarn_mscale(scaling.factor, 1.0);
}

// Applies YaRN: pairs that turn more than beta_fast times over the original context stay, those
// that turn less than beta_slow times are stretched by the factor, with a linear ramp for the pairs
// between.
void apply_yarn(const ModelConfig& config, RopeFrequencies& rope) {
  const RopeScaling& scaling = config.rope_scaling;
  const double dim = config.head_dim;
  const auto pair_that_turns = [&](double turns) {
    return dim * std::log(scaling.original_max_position / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(static_cast<double>(config.rope_theta)));
  };
  double low = pair_that_turns(scaling.beta_fast);
  double high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;
  for (size_t pair = 0; pair < rope.frequencies.size(); ++pair) {
    const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    const double frequency = rope.frequencies[pair];
    rope.frequencies[pair] = frequency / scaling.factor * ramp + frequency * (1.0 - ramp);
  }
  rope.magnitude = yarn_magnitude(scaling);
}

}  // namespace

RopeFrequencies rope_frequencies(const ModelConfig& config) {
  RopeFrequencies rope;
  const RopeScaling& scaling = config.rope_scaling;
  for (int32_t dim = 0; dim < config.head_dim; dim += 2) {
    double frequency = 1.0 / std::pow(static_cast<double>(config.rope_theta),
                                      static_cast<double>(dim) / config.head_dim);
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLlama3)
      frequency = llama3_frequency(frequency, scaling);
    if (scaling.kind == RopeScaling::Kind::kFactors) {
      frequency /= scaling.pair_factors[static_cast<size_t>(dim / 2)];
    }
    rope.frequencies.push_back(frequency);
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) apply_yarn(config, rope);
  return rope;
}

}  // namespace forerun
