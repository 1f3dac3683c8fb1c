// The sampler's passes over one row of logits, [vocab] f32, in a portable version and one for each
// instruction set; all give the same bits. Files compiled for wider instruction sets include this
// header, so it has only declarations.
//
// A row is divided into blocks of 256 tokens. Lane l of block b covers tokens 256 b + 16 j + l, j
// in [0, 16). The maximum of every lane is kept, so that later passes skip blocks that cannot
// matter.
#pragma once

#include <cstdint>

namespace forerun {

inline constexpr int64_t kScanBlock = 256;
inline constexpr int64_t kScanLanes = 16;

// score(token) = (logit - max_logit) * inv_temperature, in f32: at most 0.
struct ScoreScale {
  float max_logit;
  float inv_temperature;
};

// A token with a score plus noise that may exceed a bound.
struct Survivor {
  int32_t token;
  uint32_t noise_bits;
  float bound;  // at least score + Gumbel noise
};

struct NoiseKey {
  uint32_t seed_low;
  uint32_t seed_high;
  uint32_t position;
  uint32_t stream;
  uint32_t first_token;  // the row's first token in the vocabulary, a multiple of 4
};

struct ScanKernels {
  // Writes lane_max [blocks][16], -inf for empty lanes. Returns false if a logit is NaN or +inf.
  bool (*lane_max)(const float* logits, int64_t count, float* lane_max);

  // Finds the tokens (counted from the row's first) of blocks [first_block, last_block) with a
  // score plus upper bound of their noise that reaches `bound`: all of these, and a few more.
  // Returns how many were written. `out` must have room for every token of the blocks.
  int32_t (*noise_survivors)(const float* logits, int64_t count, const float* lane_max,
                             ScoreScale scale, NoiseKey key, float bound, int64_t first_block,
                             int64_t last_block, Survivor* out);

  // Finds tokens with logit >= threshold, ascending; returns how many. `out` has room for `count`.
  int32_t (*collect)(const float* logits, int64_t count, const float* lane_max, float threshold,
                     int32_t* out);

  // Writes weights[i] = exp(score of token i), by one polynomial that is the same everywhere
  // (relative error below 2e-7); 0 below exp(-87). Returns the sum of to_fixed_weight(weights[i]).
  // `weights` may be null.
  uint64_t (*exp_weights)(const float* logits, int64_t count, ScoreScale scale, float* weights);
};

// Returns the kernels of the instruction set in use (kernels/isa.h).
const ScanKernels& scan_kernels();

const ScanKernels& scan_kernels_scalar();
// Defined if isa_is_built() (kernels/isa.h).
const ScanKernels& scan_kernels_avx2();
const ScanKernels& scan_kernels_avx512();

// The scale of fixed-point weights (base/token_weight.h).
inline constexpr double kFixedWeightScale = 0x1p40;

// exp_score() computes the same as exp_weights() for one score.
float exp_score(float score);
uint64_t to_fixed_weight(float weight);

}  // namespace forerun
