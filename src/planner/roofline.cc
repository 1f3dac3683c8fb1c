#include "planner/roofline.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "checkpoint/modules.h"
#include "model/shard_plan.h"

namespace forerun {
namespace {

constexpr double kActivationBytes = 2.0;
constexpr int32_t kWholeHead = 128;  // dimensions; narrower heads read the KV cache more slowly
constexpr int32_t kExchangesPerLayer = 2;
constexpr int32_t kComputeBoundRows = 4096;

double bytes_of_weight(const ModelConfig& config, const Module& module) {
  const QuantizationConfig& quantization = config.quantization;
  if (module.type == ModuleType::kLinear) {
    if (quantization.kind == QuantizationConfig::Kind::kBlocks) {
      return quantization.bytes_per_weight;
    }
    const double bytes = bytes_per_weight(quantization, module);
    if (bytes > 0) return bytes;
  }
  return config.dtype == DType::kF32 ? 4.0 : 2.0;
}

DeviceWork work_of(const ModelConfig& config, const DeviceShard& shard) {
  DeviceWork work;
  work.num_layers = config.num_layers;
  work.hidden_size = config.hidden_size;
  work.head_dim = config.head_dim;
  for (const Module& module : decoder_modules(config)) {
    if (module.type == ModuleType::kNorm) continue;
    const double weights = module_share(module, shard, config) * static_cast<double>(module.out) *
                           static_cast<double>(module.in);
    const double bytes = weights * bytes_of_weight(config, module);
    work.resident_bytes += bytes;
    // A Step reads one row of the embedding for each row, unless the embedding is also the head.
    if (module.type == ModuleType::kEmbedding && !config.tied_embeddings) continue;
    work.weight_bytes += bytes;
    work.row_flops += 2.0 * weights;
  }
  const double layers = config.num_layers;
  work.kv_token_bytes =
      layers * 2.0 * static_cast<double>(shard.kv_heads.size()) * config.head_dim * 2.0;
  work.pair_flops = layers * 4.0 * static_cast<double>(shard.heads.size()) * config.head_dim;
  return work;
}

}  // namespace

Result<DeviceWork> device_work(const ModelConfig& config, int32_t degree) {
  for (const int32_t window : config.sliding_window) {
    if (window == 0) continue;
    return Status(StatusCode::kInvalidArgument,
                  "model: found layers that attend to a window of " + std::to_string(window) +
                      " tokens; accepted: models whose layers attend to the whole context");
  }
  FORERUN_ASSIGN_OR_RETURN(const ShardPlan plan,
                           make_shard_plan(config, degree, config.vocab_size));
  DeviceWork fullest;
  for (const DeviceShard& shard : plan.devices) {
    const DeviceWork work = work_of(config, shard);
    fullest.num_layers = work.num_layers;
    fullest.hidden_size = work.hidden_size;
    fullest.head_dim = work.head_dim;
    fullest.weight_bytes = std::max(fullest.weight_bytes, work.weight_bytes);
    fullest.resident_bytes = std::max(fullest.resident_bytes, work.resident_bytes);
    fullest.row_flops = std::max(fullest.row_flops, work.row_flops);
    fullest.kv_token_bytes = std::max(fullest.kv_token_bytes, work.kv_token_bytes);
    fullest.pair_flops = std::max(fullest.pair_flops, work.pair_flops);
  }
  return fullest;
}

void add_roofline(const DeviceWork& work, const GpuGroup& group, Role role, StepCosts& costs) {
  const GpuSpec& gpu = group.gpu;
  const GpuEfficiency& share = gpu.efficiency;
  const double attention = work.head_dim < kWholeHead ? share.narrow_attention : share.attention;
  double fixed = work.weight_bytes / (gpu.bandwidth_bytes_per_s * share.weights) + gpu.host.step +
                 work.num_layers * gpu.host.layer;
  double per_row = work.row_flops / (gpu.matrix_flops_per_s * share.matrix);
  if (group.count > 1) {
    const double peers = group.count - 1.0;
    const double exchanges = kExchangesPerLayer * work.num_layers;
    fixed += exchanges * peers * gpu.exchange_seconds;
    // Each part of a row is summed once and sent to all devices.
    per_row += exchanges * 2.0 * peers / group.count * work.hidden_size * kActivationBytes /
               (gpu.link_bytes_per_s * share.link);
  }
  for (const int32_t rows : {1, kComputeBoundRows}) {
    costs.add(role, {.rows = rows}, fixed + rows * per_row);
  }
  costs.set_slopes(
      role,
      {.per_kv_token = work.kv_token_bytes / (gpu.bandwidth_bytes_per_s * attention),
       .per_attended_token = share.attention_arithmetic * work.pair_flops / gpu.matrix_flops_per_s,
       .per_sequence = role == Role::kDraft ? gpu.host.draft_sequence : gpu.host.sequence});
}

}  // namespace forerun
