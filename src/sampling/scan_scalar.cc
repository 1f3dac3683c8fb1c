#include <algorithm>
#include <limits>

#include "base/noise.h"
#include "base/token_weight.h"
#include "kernels/isa.h"
#include "sampling/scan.h"

namespace forerun {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool lane_max_scalar(const float* logits, int64_t count, float* lane_max) {
  bool good = true;
  for (int64_t begin = 0; begin < count; begin += kScanBlock) {
    float* lanes = lane_max + begin / kScanLanes;
    std::fill_n(lanes, kScanLanes, -kInfinity);
    const int64_t end = std::min(begin + kScanBlock, count);
    for (int64_t token = begin; token < end; ++token) {
      good &= logits[token] < kInfinity;
      float& best = lanes[token % kScanLanes];
      best = logits[token] > best ? logits[token] : best;
    }
  }
  return good;
}

int32_t noise_survivors_scalar(const float* logits, int64_t count, const float* lane_max,
                               ScoreScale scale, NoiseKey key, float bound, int64_t first_block,
                               int64_t last_block, Survivor* out) {
  const float reach = bound - 17.34f;  // kMaxGumbel and a margin
  int32_t found = 0;
  for (int64_t block = first_block; block < last_block; ++block) {
    const float* lanes = lane_max + block * kScanLanes;
    const float best = *std::max_element(lanes, lanes + kScanLanes);
    if (!((best - scale.max_logit) * scale.inv_temperature >= reach)) continue;
    const int64_t end = std::min((block + 1) * kScanBlock, count);
    for (int64_t quad = block * kScanBlock; quad < end; quad += 4) {
      float scores[4];
      bool any = false;
      const int64_t live = std::min<int64_t>(4, end - quad);
      for (int64_t word = 0; word < live; ++word) {
        scores[word] = (logits[quad + word] - scale.max_logit) * scale.inv_temperature;
        any |= scores[word] >= reach;
      }
      if (!any) continue;
      const auto bits = philox({(key.first_token + static_cast<uint32_t>(quad)) / 4, key.position,
                                key.stream, 0x464f5245u},
                               {key.seed_low, key.seed_high});
      for (int64_t word = 0; word < live; ++word) {
        const float upper = scores[word] + gumbel_bound(bits[static_cast<size_t>(word)]);
        if (upper >= bound) {
          out[found++] = {static_cast<int32_t>(quad + word), bits[static_cast<size_t>(word)],
                          upper};
        }
      }
    }
  }
  return found;
}

int32_t collect_scalar(const float* logits, int64_t count, const float* lane_max, float threshold,
                       int32_t* out) {
  int32_t found = 0;
  for (int64_t begin = 0; begin < count; begin += kScanBlock) {
    const float* lanes = lane_max + begin / kScanLanes;
    if (*std::max_element(lanes, lanes + kScanLanes) < threshold) continue;
    const int64_t end = std::min(begin + kScanBlock, count);
    for (int64_t token = begin; token < end; ++token) {
      if (logits[token] >= threshold) out[found++] = static_cast<int32_t>(token);
    }
  }
  return found;
}

uint64_t exp_weights_scalar(const float* logits, int64_t count, ScoreScale scale, float* weights) {
  uint64_t sum = 0;
  for (int64_t token = 0; token < count; ++token) {
    const float e = token_weight((logits[token] - scale.max_logit) * scale.inv_temperature);
    sum += to_fixed_weight(e);
    if (weights != nullptr) weights[token] = e;
  }
  return sum;
}

}  // namespace

float exp_score(float score) { return token_weight(score); }

uint64_t to_fixed_weight(float weight) { return fixed_token_weight(weight); }

const ScanKernels& scan_kernels_scalar() {
  static constexpr ScanKernels kKernels = {lane_max_scalar, noise_survivors_scalar, collect_scalar,
                                           exp_weights_scalar};
  return kKernels;
}

const ScanKernels& scan_kernels() {
  const Isa isa = current_isa();
  if constexpr (isa_is_built(Isa::kAvx512) || isa_is_built(Isa::kAvx512Bf16)) {
    if (isa >= Isa::kAvx512) return scan_kernels_avx512();
  }
  if constexpr (isa_is_built(Isa::kAvx2)) {
    if (isa == Isa::kAvx2) return scan_kernels_avx2();
  }
  return scan_kernels_scalar();
}

}  // namespace forerun
