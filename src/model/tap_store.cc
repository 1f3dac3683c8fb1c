#include "model/tap_store.h"

#include <limits>
#include <string>
#include <utility>

namespace forerun {

Status check_taps(const TapOptions& taps, const LayerRange& layers, const ModelConfig& config) {
  if (taps.after_layers.empty()) return {};
  for (const int32_t after : taps.after_layers) {
    if (after > layers.begin && after <= layers.end) continue;
    if (after == 0 && layers.embeds) continue;
    return {StatusCode::kInvalidArgument,
            "taps: found one after " + std::to_string(after) + " layers; accepted: after " +
                std::to_string(layers.embeds ? 0 : layers.begin + 1) + " to " +
                std::to_string(layers.end) + " layers, in " + describe(layers, config)};
  }
  constexpr int64_t kMaxPlaces = std::numeric_limits<int32_t>::max();
  if (taps.places < 1 || taps.places > kMaxPlaces) {
    return {StatusCode::kInvalidArgument, "taps: found a store of " + std::to_string(taps.places) +
                                              " places; accepted: 1 to " +
                                              std::to_string(kMaxPlaces)};
  }
  return {};
}

TapStore::TapStore(TapOptions options, int64_t hidden_size, DType dtype)
    : options_(std::move(options)), hidden_size_(hidden_size), dtype_(dtype) {
  if (options_.after_layers.empty()) options_.places = 0;
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes()));
}

}  // namespace forerun
