#include "checkpoint/blocks/round_blocks.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/dtype.h"

namespace forerun {
namespace {

// Number of sizes tried for a scale: 5 sizes range from 0.85 to 1.15 times that of the largest
// value.
constexpr int kSteps = 5;
constexpr float kStep = 0.03f;
constexpr int kMaxGroups = 16;

// The fit of a group: each value is about scale * level + offset.
struct GroupFit {
  float scale = 0;
  float offset = 0;
};

int32_t rounded(float value, int32_t low, int32_t high) {
  // Compares floats, because the quotient of a tiny scale fits into no integer.
  return static_cast<int32_t>(
      std::nearbyint(std::clamp(value, static_cast<float>(low), static_cast<float>(high))));
}

// The distinct levels of a format in ascending order.
class Levels {
 public:
  explicit Levels(const BlockLayout& layout) : zero_(layout.zero), most_((1 << layout.bits) - 1) {
    if (layout.code_book.empty()) {
      largest_ = static_cast<float>(zero_ > 0 ? -zero_ : most_);
      return;
    }
    for (size_t q = 0; q < layout.code_book.size(); ++q) {
      const int32_t level = layout.code_book[q];
      size_t at = 0;
      while (at < count_ && book_[at] < level) ++at;
      if (at < count_ && book_[at] == level) continue;
      std::copy_backward(book_ + at, book_ + count_, book_ + count_ + 1);
      std::copy_backward(quants_ + at, quants_ + count_, quants_ + count_ + 1);
      book_[at] = level;
      quants_[at] = static_cast<uint8_t>(q);
      ++count_;
      if (std::abs(static_cast<float>(level)) > std::abs(largest_)) {
        largest_ = static_cast<float>(level);
      }
    }
    for (size_t at = 0; at + 1 < count_; ++at) {
      middles_[at] = 0.5f * static_cast<float>(book_[at] + book_[at + 1]);
    }
  }

  // Returns the level with the largest magnitude; among equals the negative one, if there is no
  // code book.
  float largest() const { return largest_; }
  float nearest(float value) const {
    if (count_ == 0) return static_cast<float>(nearest_integer(value));
    return static_cast<float>(book_[place(value)]);
  }
  uint8_t nearest_quant(float value) const {
    if (count_ == 0) return static_cast<uint8_t>(nearest_integer(value) + zero_);
    return quants_[place(value)];
  }

 private:
  int32_t nearest_integer(float value) const { return rounded(value, -zero_, most_ - zero_); }
  size_t place(float value) const {
    int32_t at = 0;
    for (const float middle : middles_) at += value > middle ? 1 : 0;
    return static_cast<size_t>(at);
  }

  int32_t zero_;
  int32_t most_;
  float largest_ = 0;
  // A code book in ascending order: its size, values, quants, and the middles between values.
  size_t count_ = 0;
  int32_t book_[16] = {};
  uint8_t quants_[16] = {};
  float middles_[16] = {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY,
                        INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY,
                        INFINITY, INFINITY, INFINITY, INFINITY};
};

float with_largest_magnitude(std::span<const float> values) {
  return *std::max_element(values.begin(), values.end(), [](float left, float right) {
    return std::abs(left) < std::abs(right);
  });
}

// Returns the best scale for values without a minimum.
GroupFit fit_scale(const Levels& levels, std::span<const float> values) {
  const float extreme = with_largest_magnitude(values);
  if (extreme == 0.0f) return {};
  GroupFit best;
  double max_explained = -1;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse = levels.largest() * (1.0f + kStep * static_cast<float>(step)) / extreme;
    if (!std::isfinite(inverse)) continue;
    double products = 0, squares = 0;
    for (const float value : values) {
      const double level = levels.nearest(value * inverse);
      products += value * level;
      squares += level * level;
    }
    // The squared error is that of all zeros less products^2 / squares.
    if (squares == 0 || products * products / squares <= max_explained) continue;
    max_explained = products * products / squares;
    best.scale = static_cast<float>(products / squares);
  }
  return best;
}

// Returns the best scale and offset; in formats with two levels of scales an offset is at most 0.
GroupFit fit_scale_and_offset(const BlockLayout& layout, std::span<const float> values) {
  const bool is_subtracted = layout.scale_high > 1;
  auto [low, high] = std::ranges::minmax(values);
  if (is_subtracted) low = std::min(low, 0.0f);
  GroupFit best{.scale = 0, .offset = low};
  if (high <= low) return best;
  const auto count = static_cast<double>(values.size());
  const int32_t max_quant = (1 << layout.bits) - 1;
  double min_error = INFINITY;
  for (int step = -kSteps; step <= kSteps; ++step) {
    const float inverse =
        static_cast<float>(max_quant) * (1.0f + kStep * static_cast<float>(step)) / (high - low);
    if (!std::isfinite(inverse)) continue;
    double sum_x = 0, sum_q = 0, sum_qq = 0, sum_xq = 0;
    for (const float value : values) {
      const double q = rounded((value - low) * inverse, 0, max_quant);
      sum_x += value;
      sum_q += q;
      sum_qq += q * q;
      sum_xq += value * q;
    }
    const double determinant = count * sum_qq - sum_q * sum_q;
    // All values may have one level, for example equal values above an offset of 0.
    const bool is_one_level = determinant <= 0;
    if (is_one_level && sum_q == 0) continue;
    double scale = is_one_level ? (sum_x - count * low) / sum_q
                                : (count * sum_xq - sum_x * sum_q) / determinant;
    double offset = (sum_x - scale * sum_q) / count;
    if (is_subtracted && offset > 0) {
      offset = 0;
      scale = sum_xq / sum_qq;
    }
    // The error omits the sum of the squared values, which is the same for all fits.
    const double error = scale * scale * sum_qq + count * offset * offset +
                         2 * (scale * offset * sum_q - scale * sum_xq - offset * sum_x);
    if (error >= min_error) continue;
    min_error = error;
    best = {static_cast<float>(scale), static_cast<float>(offset)};
  }
  return best;
}

// Returns the power of two near a fitted scale with the smallest squared error, as an exponent e
// that stands for 2^(e - 128).
uint16_t best_exponent(const BlockLayout& layout, const Levels& levels,
                       std::span<const float> values, float scale) {
  if (scale == 0.0f) return 0;
  const int32_t below = rounded(std::floor(std::log2(std::abs(scale))) + 128.0f, 0, 253);
  uint16_t best = 0;
  double min_error = INFINITY;
  for (int32_t e = below; e <= below + 1; ++e) {
    const float step = block_scale(layout, static_cast<uint16_t>(e));
    double error = 0;
    for (const float value : values) {
      const double off = value - step * levels.nearest(value / step);
      error += off * off;
    }
    if (error < min_error) min_error = error, best = static_cast<uint16_t>(e);
  }
  return best;
}

// Returns an f16 such that `integer` times it is about `value`.
f16 unit_for(float value, int32_t integer) { return to_f16(value / static_cast<float>(integer)); }

// Sets d and dmin of a block with one scale.
void store_scale(const BlockLayout& layout, const GroupFit& fit, BlockFields& to) {
  to.d = to_f16(fit.scale).bits;
  to.scale[0] = 1;
  to.min[0] = layout.has_min ? int8_t{-1} : int8_t{0};
  to.dmin = layout.has_min ? to_f16(fit.offset).bits : uint16_t{0};
}

// Sets d, dmin and the integers of all groups.
void store_scales(const BlockLayout& layout, std::span<const GroupFit> fits, BlockFields& to) {
  float scales[kMaxGroups], mins[kMaxGroups];
  for (size_t group = 0; group < fits.size(); ++group) {
    scales[group] = fits[group].scale;
    mins[group] = -fits[group].offset;
  }
  // Maps the largest scale to the integer with the largest magnitude.
  const int32_t largest = layout.scale_low < 0 ? layout.scale_low : layout.scale_high;
  const f16 d = unit_for(with_largest_magnitude({scales, fits.size()}), largest);
  const f16 dmin = layout.has_min
                       ? unit_for(with_largest_magnitude({mins, fits.size()}), layout.scale_high)
                       : f16{};
  const auto integer = [](float value, float unit, int32_t low, int32_t high) {
    return static_cast<int8_t>(unit == 0.0f ? 0 : rounded(value / unit, low, high));
  };
  for (size_t group = 0; group < fits.size(); ++group) {
    to.scale[group] = integer(scales[group], to_float(d), layout.scale_low, layout.scale_high);
    to.min[group] = integer(mins[group], to_float(dmin), 0, layout.scale_high);
  }
  to.d = d.bits;
  to.dmin = dmin.bits;
}

}  // namespace

void round_block(const BlockFormatInfo& format, const float* values, BlockFields& to) {
  const BlockLayout& layout = *format.layout;
  const int64_t groups = format.weights / layout.group;
  const auto group_size = static_cast<size_t>(layout.group);
  const Levels levels(layout);
  GroupFit fits[kMaxGroups];
  for (int64_t group = 0; group < groups; ++group) {
    const std::span<const float> of_group(values + group * layout.group, group_size);
    fits[group] =
        layout.has_min ? fit_scale_and_offset(layout, of_group) : fit_scale(levels, of_group);
  }
  if (layout.scale_high > 1) {
    store_scales(layout, {fits, static_cast<size_t>(groups)}, to);
  } else {
    store_scale(layout, fits[0], to);
  }
  if (layout.e8m0) to.d = best_exponent(layout, levels, {values, group_size}, fits[0].scale);
  const float d = block_scale(layout, to.d);
  const float dmin = layout.has_min ? to_float(f16{to.dmin}) : 0.0f;
  for (int64_t at = 0; at < format.weights; ++at) {
    const int64_t group = at / layout.group;
    const float scale = d * static_cast<float>(to.scale[group]);
    const float min = dmin * static_cast<float>(to.min[group]);
    to.q[at] = levels.nearest_quant(scale == 0.0f ? 0.0f : (values[at] + min) / scale);
  }
}

}  // namespace forerun
