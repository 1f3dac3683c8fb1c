// What kernels/cuda/wgmma.h has for a GPU, as far as attention needs it, on the host. Products are
// done when they are asked for, by all threads of a warpgroup together.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

template <int kRowInputs>
uint64_t wgmma_descriptor(uint32_t address) {
  static_assert(kRowInputs == 64, "a swizzle of 128 bytes");
  return uint64_t{1} << 62 | uint64_t{kRowInputs * 16 >> 4} << 32 | uint64_t{1} << 16 |
         (address & 0x3ffff) >> 4;
}
inline uint64_t wgmma_advance(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint32_t>(bytes >> 4);
}
inline uint32_t wgmma_uniform(uint32_t address) {
  if (emulation::shuffle(address, 0) != address) emulation::fail("an operand that is not uniform");
  return address;
}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kCount>
void warpgroup_reg_dealloc() {}
template <int kCount>
void warpgroup_reg_alloc() {}

namespace emulation {

// Where eight rows begin, and what lies between panels.
inline uint32_t wgmma_element(uint64_t descriptor, uint32_t row, uint32_t byte, uint32_t panel) {
  const auto field = [descriptor](int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4;
  };
  if (descriptor >> 62 != 1) fail("an operand without a swizzle of 128 bytes");
  uint32_t offset = field(0) + row / 8 * field(32) + row % 8 * 128 + byte + panel * field(16);
  offset ^= (offset >> 7 & 7) << 4;
  return own_address(offset);
}
// Element `k` of a row of an operand whose rows lie one after another.
inline float wgmma_row_major(uint64_t descriptor, uint32_t row, uint32_t k) {
  return from_bf16(load<uint16_t>(wgmma_element(descriptor, row, 2 * k, 0)));
}
// Element k of column n where a row has all columns of one k, 64 of them a panel.
inline float wgmma_transposed(uint64_t descriptor, uint32_t n, uint32_t k) {
  return from_bf16(load<uint16_t>(wgmma_element(descriptor, k, n % 64 * 2, n / 64)));
}

// d (+)= 64 rows of 16 times 16 by kColumns. The first operand is `a`, laid out as mma()'s, or in
// shared memory.
template <uint32_t kColumns, bool kAdd, bool kInRegisters, bool kTransposed>
void wgmma(float (*d)[4], const uint32_t* a, uint64_t first, uint64_t second) {
  struct Operand {
    float (*d)[4];
    const uint32_t* a;
    uint64_t first, second;
  } own = {d, a, first, second};
  static const char instruction = 0;
  together<128>(&instruction, own, [](const std::array<Operand*, 128>& all) {
    static Sixteen rows[64], columns[kColumns];
    for (const Operand* operand : all) {
      if (operand->first != all[0]->first || operand->second != all[0]->second) {
        fail("operands of a warpgroup differ");
      }
    }
    for (uint32_t i = 0; i < 128; ++i) {
      const uint32_t row = i / 32 * 16 + i % 32 / 4;
      for (uint32_t j = 0; j < 8 && kInRegisters; ++j) {
        rows[row + j / 2 % 2 * 8][i % 4 * 2 + j % 2 + j / 4 * 8] =
            from_half<false>(all[i]->a[j / 2], j % 2);
      }
    }
    for (uint32_t row = 0; row < 64 && !kInRegisters; ++row) {
      for (uint32_t k = 0; k < 16; ++k) rows[row][k] = wgmma_row_major(all[0]->first, row, k);
    }
    for (uint32_t column = 0; column < kColumns; ++column) {
      for (uint32_t k = 0; k < 16; ++k) {
        columns[column][k] = kTransposed ? wgmma_transposed(all[0]->second, column, k)
                                         : wgmma_row_major(all[0]->second, column, k);
      }
    }
    for (uint32_t i = 0; i < 128; ++i) {
      const uint32_t row = i / 32 * 16 + i % 32 / 4;
      for (uint32_t j = 0; j < kColumns / 2; ++j) {
        float& sum = all[i]->d[j / 4][j % 4];
        sum = multiply_add(rows[row + j % 4 / 2 * 8], columns[j / 4 * 8 + i % 4 * 2 + j % 2],
                           kAdd ? sum : 0.0f);
      }
    }
  });
}

}  // namespace emulation
}  // namespace forerun::cuda
