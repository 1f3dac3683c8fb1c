#include "model/tap_store.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace forerun {
namespace {

// Returns whether a stage of these layers, or one before it, takes the tap.
bool is_behind_layers(int32_t after, const LayerRange& layers) {
  return after > layers.begin ? after <= layers.end : after == 0 && layers.embeds;
}
bool is_in_front(int32_t after, const LayerRange& layers) {
  return !layers.embeds && after >= 0 && after <= layers.begin;
}

}  // namespace

Status check_taps(const TapOptions& taps, const LayerRange& layers, const ModelConfig& config) {
  if (taps.after_layers.empty()) return {};
  for (const int32_t after : taps.after_layers) {
    if (is_behind_layers(after, layers) || (layers.heads && is_in_front(after, layers))) continue;
    return {StatusCode::kInvalidArgument,
            "taps: found one after " + std::to_string(after) + " layers; accepted: after " +
                std::to_string(layers.embeds || layers.heads ? 0 : layers.begin + 1) + " to " +
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

TapOptions taps_of_stage(const TapOptions& taps, const LayerRange& layers) {
  if (layers.heads) return taps;
  TapOptions own;
  std::copy_if(taps.after_layers.begin(), taps.after_layers.end(),
               std::back_inserter(own.after_layers),
               [&layers](int32_t after) { return is_behind_layers(after, layers); });
  std::sort(own.after_layers.begin(), own.after_layers.end());
  if (!own.after_layers.empty()) own.places = taps.places;
  return own;
}

std::vector<size_t> taps_in_front(std::span<const int32_t> after_layers, const LayerRange& layers) {
  std::vector<size_t> taps;
  for (size_t idx = 0; idx < after_layers.size(); ++idx) {
    if (is_in_front(after_layers[idx], layers)) taps.push_back(idx);
  }
  std::stable_sort(taps.begin(), taps.end(),
                   [&](size_t a, size_t b) { return after_layers[a] < after_layers[b]; });
  return taps;
}

TapStore::TapStore(TapOptions options, int64_t hidden_size, DType dtype)
    : options_(std::move(options)), hidden_size_(hidden_size), dtype_(dtype) {
  if (options_.after_layers.empty()) options_.places = 0;
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes()));
}

}  // namespace forerun
