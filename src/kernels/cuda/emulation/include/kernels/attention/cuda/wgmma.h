// Emulates kernels/attention/cuda/wgmma.h on the host.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/wgmma.h"

namespace forerun::cuda {

constexpr int kPanelBytes = 64 * kPanelRowBytes;

inline uint64_t wgmma_values(uint32_t address) {
  return uint64_t{1} << 62 | uint64_t{8 * kPanelRowBytes >> 4} << 32 |
         uint64_t{kPanelBytes >> 4} << 16 | (address & 0x3ffff) >> 4;
}
template <bool kAdd, int kEights>
void wgmma_scores(float (&d)[kEights][4], uint64_t queries, uint64_t keys) {
  emulation::wgmma<kEights * 8, kAdd, false, false>(d, nullptr, queries, keys);
}
template <int kEights>
void wgmma_add_values(float (&d)[kEights][4], const uint32_t (&a)[4], uint64_t values) {
  emulation::wgmma<kEights * 8, true, true, true>(d, a, 0, values);
}
template <int kEights>
void wgmma_add_values(float (&d)[kEights][4], uint64_t probs, uint64_t values) {
  emulation::wgmma<kEights * 8, true, false, true>(d, nullptr, probs, values);
}
template <int kEights>
void wgmma_wait(float (&)[kEights][4]) {}

}  // namespace forerun::cuda
