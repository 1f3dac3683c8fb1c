// Instantiates the kernels for many rows of the grouped formats (linear/cuda/tiles.cu).
#include <cstddef>
#include <utility>

#include "kernels/linear/cuda/tiles_kernel.h"

namespace forerun::cuda {
namespace {

constexpr int kBoxInputs = 64;

template <LinearFormat kFormat>
TileVariant variant_of(bool few_rows, bool gated, bool shared) {
  if (few_rows) {
    return shared ? tile_variant<kFormat, kFewTileRows, kBoxInputs, true>(gated)
                  : tile_variant<kFormat, kFewTileRows, kBoxInputs, false>(gated);
  }
  return shared ? tile_variant<kFormat, kTileRows, kBoxInputs, true>(gated)
                : tile_variant<kFormat, kTileRows, kBoxInputs, false>(gated);
}

template <size_t... kIndices>
TileVariant find_variant(LinearFormat format, bool few_rows, bool gated, bool shared,
                         std::index_sequence<kIndices...>) {
  TileVariant found = {};
  const auto look = [&]<LinearFormat kFormat>() {
    if (format == kFormat) found = variant_of<kFormat>(few_rows, gated, shared);
  };
  (look.template operator()<kUnitFormats[kFirstGrouped + kIndices].format>(), ...);
  return found;
}

}  // namespace

TileVariant grouped_tile_variant(LinearFormat format, bool few_rows, bool gated, bool shared) {
  return find_variant(format, few_rows, gated, shared,
                      std::make_index_sequence<kGroupedFormatCount>());
}

}  // namespace forerun::cuda
