#include "model/shard_plan.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace forerun {
namespace {

int64_t ceil_div(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// Returns the share of the fullest device if `count` items are dealt in whole units.
int64_t largest_part(int64_t count, int64_t unit, int64_t degree) {
  return ceil_div(ceil_div(count, unit), degree) * unit;
}

// Returns a rank's range: contiguous, in whole units (the last one may be shorter). Sizes differ by
// one unit at most.
ShardRange part_of(int64_t count, int64_t unit, int64_t degree, int64_t rank) {
  const int64_t units = ceil_div(count, unit);
  const int64_t base = units / degree;
  const int64_t extra = units % degree;
  const int64_t first = rank * base + std::min(rank, extra);
  const int64_t last = first + base + (rank < extra ? 1 : 0);
  return {std::min(first * unit, count), std::min(last * unit, count)};
}

// Returns a number of inputs at multiples of which a weight may be cut; 1 for floats. Blocks may be
// cut anywhere: a part that begins or ends within one is widened.
int64_t input_unit(const ModelConfig& config) {
  int64_t unit = 1;
  for (const LayerScheme& scheme : config.quantization.schemes) {
    if (scheme.group_size == 0) continue;  // floats
    // A single scale for all inputs can be repeated; kernels take 32 inputs at a time.
    const int64_t cut =
        scheme.group_size < 0 ? 32 : std::gcd(int64_t{scheme.group_size}, int64_t{128});
    unit = std::lcm(unit, cut);
  }
  return unit;
}

// Returns the number of inputs at multiples of which a weight is cut into whole blocks.
int64_t best_input_unit(const ModelConfig& config) {
  int64_t unit = std::max<int64_t>(input_unit(config), config.quantization.block_inputs);
  for (const LayerScheme& scheme : config.quantization.schemes) {
    unit = std::max<int64_t>(unit, scheme.block_size);
  }
  return unit;
}

// Returns the coarsest unit that pads little.
int64_t mlp_unit(const ModelConfig& config, int64_t degree) {
  const int64_t finest = std::max<int64_t>(16, input_unit(config));
  const int64_t count = config.intermediate_size;
  for (int64_t unit = std::max<int64_t>(128, best_input_unit(config)); unit > finest; unit /= 2) {
    if (8 * degree * largest_part(count, unit, degree) <= 9 * count) return unit;
  }
  return finest;
}

int64_t head_unit(const ModelConfig& config, int64_t degree) {
  const int64_t group = config.num_heads / config.num_kv_heads;
  const auto heads_of = [&](int64_t inputs) {
    return inputs / std::gcd(inputs, int64_t{config.head_dim});
  };
  const int64_t finest = heads_of(input_unit(config));
  const int64_t even = largest_part(config.num_heads, finest, degree);
  const auto costs_little = [&](int64_t unit) {
    return 8 * largest_part(config.num_heads, unit, degree) <= 9 * even;
  };
  // Whole KV heads, if the weights with their inputs can be cut there; preferably whole blocks.
  const int64_t best = std::lcm(group, heads_of(best_input_unit(config)));
  if (costs_little(best)) return best;
  const int64_t aligned = std::lcm(group, finest);
  return costs_little(aligned) ? aligned : finest;
}

int64_t vocab_unit(int64_t vocab, int64_t degree) { return vocab >= 128 * 16 * degree ? 128 : 16; }

}  // namespace

Result<ShardPlan> make_shard_plan(const ModelConfig& config, int32_t degree, int64_t vocab) {
  if (degree < 1 || degree > kMaxDegree) {
    return Status(StatusCode::kInvalidArgument,
                  "tensor parallelism: found " + std::to_string(degree) +
                      " devices; accepted: 1 to " + std::to_string(kMaxDegree));
  }
  const int64_t group = config.num_heads / config.num_kv_heads;
  const int64_t heads = head_unit(config, degree);
  const int64_t mlp = mlp_unit(config, degree);
  const int64_t rows = vocab_unit(vocab, degree);
  ShardPlan plan;
  plan.padded_mlp = largest_part(config.intermediate_size, mlp, degree);
  plan.padded_vocab = largest_part(vocab, rows, degree);
  for (int64_t rank = 0; rank < degree; ++rank) {
    DeviceShard shard;
    shard.heads = part_of(config.num_heads, heads, degree, rank);
    if (shard.heads.size() > 0) {
      shard.kv_heads = {shard.heads.begin / group, ceil_div(shard.heads.end, group)};
      shard.first_slot = shard.heads.begin - shard.kv_heads.begin * group;
    }
    shard.mlp = part_of(config.intermediate_size, mlp, degree, rank);
    shard.vocab = part_of(vocab, rows, degree, rank);
    shard.has_all_vocab = shard.vocab.size() == vocab;
    if (shard.heads.size() == 0 && shard.mlp.size() == 0) {
      return Status(StatusCode::kInvalidArgument,
                    "tensor parallelism: device " + std::to_string(rank) + " of " +
                        std::to_string(degree) + " would hold nothing of the layers (" +
                        std::to_string(config.num_heads) + " heads in units of " +
                        std::to_string(heads) + ", " + std::to_string(config.intermediate_size) +
                        " MLP columns in units of " + std::to_string(mlp) +
                        "); accepted: fewer devices");
    }
    plan.padded_heads = std::max(plan.padded_heads, shard.heads.size());
    plan.padded_kv_heads = std::max(plan.padded_kv_heads, shard.kv_heads.size());
    plan.devices.push_back(shard);
  }
  return plan;
}

ModulePart module_part(const Module& module, const DeviceShard& shard, const ModelConfig& config) {
  ModulePart part{{0, module.out}, {0, module.in}};
  ShardRange& divided = module.divides_inputs ? part.in : part.out;
  switch (module.axis) {
    case ShardAxis::kWhole:
      break;
    case ShardAxis::kHeads:
      divided = {shard.heads.begin * config.head_dim, shard.heads.end * config.head_dim};
      break;
    case ShardAxis::kKvHeads:
      divided = {shard.kv_heads.begin * config.head_dim, shard.kv_heads.end * config.head_dim};
      break;
    case ShardAxis::kMlp:
      divided = shard.mlp;
      break;
    case ShardAxis::kVocab:
      divided = shard.vocab;
      break;
  }
  return part;
}

double module_share(const Module& module, const DeviceShard& shard, const ModelConfig& config) {
  const ModulePart part = module_part(module, shard, config);
  return module.divides_inputs
             ? static_cast<double>(part.in.size()) / static_cast<double>(module.in)
             : static_cast<double>(part.out.size()) / static_cast<double>(module.out);
}

}  // namespace forerun
