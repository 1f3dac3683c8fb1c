#include "model/widened_formats.h"

#include <algorithm>

#include "model/weight_packing.h"

namespace forerun {
namespace {

std::string megabytes(int64_t bytes) {
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

}  // namespace

std::vector<WidenedFormat> widened_formats(const Checkpoint& checkpoint, const LayerRange& stage,
                                           bool on_gpus) {
  const ModelConfig& config = checkpoint.config();
  std::vector<WidenedFormat> formats;
  for (const Module& module : decoder_modules(config)) {
    const bool is_tied_head = module.type == ModuleType::kEmbedding && config.tied_embeddings;
    if (!stage.holds(module.id, config) || module.type == ModuleType::kNorm ||
        (module.type == ModuleType::kEmbedding && !is_tied_head)) {
      continue;
    }
    const RawTensor* const tensor = checkpoint.weight(module.id);
    if (tensor == nullptr || (tensor->blocks == nullptr && tensor->parts == nullptr)) continue;
    if (has_kernel(*tensor, on_gpus)) continue;
    const std::string stored(format_name(*tensor));
    auto found = std::find_if(formats.begin(), formats.end(),
                              [&](const WidenedFormat& each) { return each.stored == stored; });
    if (found == formats.end()) {
      found = formats.insert(found, {.stored = stored, .read_as = on_gpus ? "bf16" : "f32"});
    }
    found->stored_bytes += stored_bytes(*tensor);
    found->read_bytes += module.out * module.in * (on_gpus ? 2 : 4);
  }
  return formats;
}

std::string describe(const std::vector<WidenedFormat>& formats) {
  std::string text;
  for (const WidenedFormat& each : formats) {
    text += (text.empty() ? "" : "; ") + each.stored + " (" + megabytes(each.stored_bytes) +
            ") is " + (each.read_as == "bf16" ? "rounded" : "widened") + " to " + each.read_as +
            " (" + megabytes(each.read_bytes) + ")";
  }
  return text;
}

}  // namespace forerun
