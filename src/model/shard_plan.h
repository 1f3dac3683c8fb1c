// The division of a model for tensor parallelism: the heads, MLP columns and vocabulary rows of
// each device of a group. It depends only on the config and is the same for every backend.
//
// Query heads, MLP columns and the head's rows are dealt in contiguous ranges, in rank order, each
// exactly once. A device also holds the whole KV heads of its query heads; if several devices have
// query heads of one KV head, each has a copy of it. Any degree works, because parts need not be
// equal: a backend that wants equal shapes pads its part with zeros to the plan's common width
// (SwiftSpec §4), which changes no sum.
//
// The function is pure.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/modules.h"
#include "forerun/status.h"

namespace forerun {

inline constexpr int32_t kMaxDegree = 8;

struct ShardRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

// One device's part. Any range may be empty.
struct DeviceShard {
  ShardRange heads;            // query heads: rows of q, inputs of o
  ShardRange kv_heads;         // rows of k and v: the KV heads of the query heads above
  ShardRange mlp;              // rows of gate and up, inputs of down
  ShardRange vocab;            // rows of the head; of the embedding if it is cut
  bool has_all_vocab = false;  // `vocab` has all rows that are ever needed
  // Query heads of the first KV head that other devices hold. With G query heads per KV head, query
  // head h of this device is number first_slot + h of the kv_heads.size() * G that its KV heads
  // serve. The others are padding: zeros that no kernel reads.
  int64_t first_slot = 0;
};

struct ShardPlan {
  std::vector<DeviceShard> devices;  // by rank
  // Sizes into which every device's part fits; the degree times these is the padded model.
  int64_t padded_heads = 0;
  int64_t padded_kv_heads = 0;
  int64_t padded_mlp = 0;
  int64_t padded_vocab = 0;

  int32_t degree() const { return static_cast<int32_t>(devices.size()); }
};

// `vocab` is the number of the head's rows that are ever needed, at most the config's.
//
// KV heads stay whole on one device if that costs the fullest device at most an eighth more query
// heads than an even deal. MLP columns are dealt in multiples of 128 if that pads the sum by an
// eighth at most, otherwise of 64, 32 or 16; groups of 32, 64 or 128 inputs are never cut.
// Fails (kInvalidArgument) for a degree below 1 or above kMaxDegree, or one that leaves a device
// without any part of the layers.
Result<ShardPlan> make_shard_plan(const ModelConfig& config, int32_t degree, int64_t vocab);

// A device's part of a module's [out][in] weight. A norm has no inputs.
struct ModulePart {
  ShardRange out;
  ShardRange in;
};
ModulePart module_part(const Module& module, const DeviceShard& shard, const ModelConfig& config);
// Returns the share of a module's weights that a device holds, in [0, 1].
double module_share(const Module& module, const DeviceShard& shard, const ModelConfig& config);

}  // namespace forerun
