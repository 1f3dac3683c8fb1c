#include "kernels/cuda/emulation/tensor_map.h"

#include <cstring>

#include "device/cuda/cuda_tensor_map.h"

namespace forerun::cuda {

Result<CUtensorMap> tensor_map_16_bit(const void* data, int64_t rows, int64_t columns,
                                      int64_t stride, int box_rows, int box_columns) {
  const emulation::TensorMap described = {.data = static_cast<const uint16_t*>(data),
                                          .rows = rows,
                                          .columns = columns,
                                          .stride = stride,
                                          .box_rows = box_rows,
                                          .box_columns = box_columns};
  CUtensorMap map = {};
  static_assert(sizeof(described) <= sizeof(map));
  std::memcpy(&map, &described, sizeof(described));
  return map;
}

namespace emulation {

TensorMap tensor_map_of(const CUtensorMap& map) {
  TensorMap described;
  std::memcpy(&described, &map, sizeof(described));
  return described;
}

}  // namespace emulation
}  // namespace forerun::cuda
