// Instantiates the kernels for few rows of the grouped formats (linear/cuda/linear.cu).
#include <cstddef>
#include <utility>

#include "kernels/linear/cuda/kernels.h"
#include "kernels/linear/cuda/linear_kernel.h"

namespace forerun::cuda {
namespace {

template <LinearFormat kFormat, int kN8Tiles>
LinearKernel kernel_of(TileSchedule schedule) {
  constexpr EpilogueKind kEpilogue = EpilogueKind::kRuntime;
  return schedule == TileSchedule::kMultiPass
             ? linear_kernel<kFormat, kN8Tiles, kEpilogue, TileSchedule::kMultiPass>
             : linear_kernel<kFormat, kN8Tiles, kEpilogue, TileSchedule::kSinglePass>;
}
template <LinearFormat kFormat>
LinearKernel kernel_of(const LinearVariant& variant) {
  return variant.n8_tiles == 1   ? kernel_of<kFormat, 1>(variant.schedule)
         : variant.n8_tiles == 2 ? kernel_of<kFormat, 2>(variant.schedule)
                                 : kernel_of<kFormat, 4>(variant.schedule);
}

template <size_t... kIndices>
LinearKernel find_kernel(const LinearVariant& variant, std::index_sequence<kIndices...>) {
  LinearKernel found = nullptr;
  const auto look = [&]<LinearFormat kFormat>() {
    if (variant.format == kFormat) found = kernel_of<kFormat>(variant);
  };
  (look.template operator()<kUnitFormats[kFirstGrouped + kIndices].format>(), ...);
  return found;
}

}  // namespace

LinearKernel grouped_kernel_for(const LinearVariant& variant) {
  return find_kernel(variant, std::make_index_sequence<kGroupedFormatCount>());
}

}  // namespace forerun::cuda
