#include "model/layer_range.h"

#include <algorithm>
#include <limits>

namespace forerun {

bool LayerRange::holds(ModuleId module, const ModelConfig& config) const {
  if (module.layer >= 0) return module.layer >= begin && module.layer < end;
  switch (module.kind) {
    case ModuleKind::kEmbedding:
      return embeds || (heads && config.tied_embeddings);
    case ModuleKind::kTapNorms:
    case ModuleKind::kTapNormLow:
    case ModuleKind::kTapNormMiddle:
    case ModuleKind::kTapNormHigh:
    case ModuleKind::kTapProjection:
      return embeds;
    default:
      return heads;  // the final norm and the head
  }
}

std::string describe(const LayerRange& range, const ModelConfig& config) {
  std::string text = "layers " + std::to_string(range.begin) + " to " +
                     std::to_string(range.end - 1) + " of " + std::to_string(config.num_layers);
  if (range.embeds) text += " with the embedding";
  if (range.heads) text += range.embeds ? " and the head" : " with the head";
  return text;
}

Status check_layer_range(const LayerRange& range, const ModelConfig& config) {
  const bool fits = range.begin >= 0 && range.begin < range.end && range.end <= config.num_layers &&
                    (!range.embeds || range.begin == 0) &&
                    (!range.heads || range.end == config.num_layers);
  if (fits) return {};
  return {StatusCode::kInvalidArgument, "stage: found " + describe(range, config) +
                                            "; accepted: at least one layer, the embedding only "
                                            "with layer 0 and the head only with "
                                            "the last layer"};
}

Result<std::vector<LayerRange>> cut_layers(std::span<const int32_t> sizes,
                                           const ModelConfig& config) {
  std::vector<LayerRange> stages;
  int64_t end = 0;
  std::string found;
  bool positive = true;
  for (const int32_t size : sizes) {
    const int64_t begin = end;
    end += size;
    positive = positive && size >= 1;
    found += (found.empty() ? "" : ", ") + std::to_string(size);
    stages.push_back({.begin = static_cast<int32_t>(begin), .end = static_cast<int32_t>(end)});
  }
  if (!positive || end != config.num_layers) {
    return Status(StatusCode::kInvalidArgument,
                  "pipeline stages: found " + (found.empty() ? "none" : found) +
                      " layers; accepted: stages of at least 1 that add up to the model's " +
                      std::to_string(config.num_layers));
  }
  stages.front().embeds = true;
  stages.back().heads = true;
  return stages;
}

Result<std::vector<LayerRange>> balance_layers(int32_t stages, std::span<const int64_t> layer_bytes,
                                               int64_t embedding_bytes, int64_t head_bytes,
                                               const ModelConfig& config) {
  const auto layers = static_cast<int32_t>(layer_bytes.size());
  if (stages < 1 || stages > layers) {
    return Status(StatusCode::kInvalidArgument, "pipeline stages: found " + std::to_string(stages) +
                                                    "; accepted: 1 to " + std::to_string(layers) +
                                                    ", one for each layer of the model");
  }
  std::vector<int64_t> sums(layer_bytes.size() + 1, 0);  // [i] is the sum of the first i layers
  for (size_t layer = 0; layer < layer_bytes.size(); ++layer) {
    sums[layer + 1] = sums[layer] + layer_bytes[layer];
  }
  const auto bytes_of = [&](int32_t begin, int32_t end) {
    return sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)] +
           (begin == 0 ? embedding_bytes : 0) + (end == layers ? head_bytes : 0);
  };
  // fullest[end] holds the bytes of the fullest stage in the best cut of layers 0 to end - 1 into
  // the stages so far.
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> fullest(layer_bytes.size() + 1, kNone);
  std::vector<std::vector<int32_t>> begins;  // [stage][end]: first layer of the last stage
  fullest[0] = 0;
  for (int32_t stage = 0; stage < stages; ++stage) {
    std::vector<int64_t> next(fullest.size(), kNone);
    std::vector<int32_t>& begin_of = begins.emplace_back(fullest.size(), 0);
    for (int32_t end = stage + 1; end <= layers; ++end) {
      for (int32_t begin = stage; begin < end; ++begin) {
        const int64_t before = fullest[static_cast<size_t>(begin)];
        if (before == kNone) continue;
        const int64_t max_bytes = std::max(before, bytes_of(begin, end));
        // Takes the last of equal cuts.
        if (max_bytes > next[static_cast<size_t>(end)]) continue;
        next[static_cast<size_t>(end)] = max_bytes;
        begin_of[static_cast<size_t>(end)] = begin;
      }
    }
    fullest = std::move(next);
  }
  std::vector<int32_t> sizes(static_cast<size_t>(stages));
  int32_t end = layers;
  for (int32_t stage = stages; stage-- > 0;) {
    const int32_t begin = begins[static_cast<size_t>(stage)][static_cast<size_t>(end)];
    sizes[static_cast<size_t>(stage)] = end - begin;
    end = begin;
  }
  return cut_layers(sizes, config);
}

}  // namespace forerun
