// Emulates kernels/cuda/wgmma.h on the host. Products are computed when they are issued, by all
// threads of a warpgroup together.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/emulation/tensor_map.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

template <int kRowInputs>
uint64_t wgmma_descriptor(uint32_t address) {
  static_assert(kRowInputs == 32 || kRowInputs == 64);
  return uint64_t{kRowInputs == 32 ? 2 : 1} << 62 | uint64_t{kRowInputs * 16 >> 4} << 32 |
         uint64_t{1} << 16 | (address & 0x3ffff) >> 4;
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
inline void wgmma_wait_for_all_but_one() {}
template <int kLeft = 0, size_t kCount>
void wgmma_wait(float (&/*d*/)[kCount]) {}
template <int kCount>
void warpgroup_reg_dealloc() {}
template <int kCount>
void warpgroup_reg_alloc() {}

namespace emulation {

// Returns the address of a byte of a row, by the descriptor's strides of eight rows and of panels.
inline uint32_t wgmma_element(uint64_t descriptor, uint32_t row, uint32_t byte, uint32_t panel) {
  const auto field = [descriptor](int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4;
  };
  const uint64_t swizzle = descriptor >> 62;
  if (swizzle != 1 && swizzle != 2) fail("an operand without a swizzle of 64 or 128 bytes");
  const uint32_t row_bytes = swizzle == 1 ? 128 : 64;
  return own_address(swizzled(
      field(0) + row / 8 * field(32) + row % 8 * row_bytes + byte + panel * field(16), row_bytes));
}
// Returns element `k` of a row of an operand with contiguous rows.
template <bool kIsF16>
float wgmma_row_major(uint64_t descriptor, uint32_t row, uint32_t k) {
  return from_half<kIsF16>(load<uint16_t>(wgmma_element(descriptor, row, 2 * k, 0)), 0);
}
// Returns element k of column n of an operand whose rows hold all columns of one k, in panels of 64
// columns.
template <bool kIsF16>
float wgmma_transposed(uint64_t descriptor, uint32_t n, uint32_t k) {
  return from_half<kIsF16>(load<uint16_t>(wgmma_element(descriptor, k, n % 64 * 2, n / 64)), 0);
}

// Computes d (+)= (64 x 16) times (16 x kColumns) with all 128 threads of a warpgroup. `first` and
// `second` are the descriptors of operands in shared memory. With kInRegisters the first operand is
// `a`, in the layout of mma().
template <uint32_t kColumns, bool kAdd, bool kInRegisters, bool kTransposed, bool kIsF16 = false>
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
            from_half<kIsF16>(all[i]->a[j / 2], j % 2);
      }
    }
    for (uint32_t row = 0; row < 64 && !kInRegisters; ++row) {
      for (uint32_t k = 0; k < 16; ++k)
        rows[row][k] = wgmma_row_major<kIsF16>(all[0]->first, row, k);
    }
    for (uint32_t column = 0; column < kColumns; ++column) {
      for (uint32_t k = 0; k < 16; ++k) {
        columns[column][k] = kTransposed ? wgmma_transposed<kIsF16>(all[0]->second, column, k)
                                         : wgmma_row_major<kIsF16>(all[0]->second, column, k);
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

// Computes d (+)= 64 outputs x 16 inputs times 16 inputs x 32, 64 or 128 rows.
template <ActivationFormat kFormat, bool kAdd, size_t kSums>
void wgmma(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b) {
  emulation::wgmma<kSums * 2, kAdd, true, false, kFormat == ActivationFormat::kF16>(
      reinterpret_cast<float(*)[4]>(d), a, 0, b);
}

// Copies to shared memory, at `target`, the box of a tensor map that begins at column `column` and
// row `row` (TMA). Elements beyond the matrix become 0; `barrier` counts the bytes when they have
// arrived.
inline void tensor_copy(uint32_t target, const CUtensorMap& map, int column, int row,
                        uint32_t barrier) {
  const emulation::TensorMap matrix = emulation::tensor_map_of(map);
  const uint32_t row_bytes = static_cast<uint32_t>(matrix.box_columns) * 2;
  const uint32_t bytes = row_bytes * static_cast<uint32_t>(matrix.box_rows);
  if (target % 128 != 0) emulation::fail("a box that is not aligned");
  emulation::poison_at(target, bytes);
  emulation::in_background([=] {
    for (int r = 0; r < matrix.box_rows; ++r) {
      for (int c = 0; c < matrix.box_columns; ++c) {
        const bool there = row + r < matrix.rows && column + c < matrix.columns;
        const uint32_t offset = static_cast<uint32_t>(r) * row_bytes + static_cast<uint32_t>(c) * 2;
        const uint16_t value =
            there ? matrix.data[(row + r) * matrix.stride + column + c] : uint16_t{0};
        emulation::store(emulation::swizzled(target + offset, row_bytes), value);
      }
    }
    emulation::complete_bytes(barrier, bytes);
  });
}

}  // namespace forerun::cuda
