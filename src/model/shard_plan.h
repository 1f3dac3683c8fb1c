// How a model is cut for tensor parallelism: which heads, MLP columns and vocabulary rows each
// device of a group holds. From the config alone, the same for every backend.
//
// Query heads, MLP columns and the head's rows are dealt in contiguous ranges, in rank order, each
// exactly once. A device also holds the KV heads of its query heads, whole; where a KV head's query
// heads fall to several devices, each of them has a copy. Any degree works, because parts need not
// be equal: a backend that wants equal shapes pads its part with zeros to the plan's common width
// (SwiftSpec §4), which changes no sum.
//
// Thread rules: pure function.
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
  ShardRange vocab;            // rows of the head; of the embedding where it is cut
  bool has_all_vocab = false;  // `vocab` are all rows that are ever needed
  // Query heads of the first KV head that other devices hold. With G query heads per KV head, query
  // head h of this device is number first_slot + h of the kv_heads.size() * G that its KV heads
  // serve. The others are padding: zeros that nothing reads.
  int64_t first_slot = 0;
};

struct ShardPlan {
  std::vector<DeviceShard> devices;  // by rank
  // The sizes that every device's part fits into; degree times these is the padded model.
  int64_t padded_heads = 0;
  int64_t padded_kv_heads = 0;
  int64_t padded_mlp = 0;
  int64_t padded_vocab = 0;

  int32_t degree() const { return static_cast<int32_t>(devices.size()); }
};

// `vocab`: rows of the head that are ever needed, at most the config's.
//
// KV heads stay whole on one device if that costs the fullest device at most an eighth more query
// heads than an even deal. MLP columns are dealt in multiples of 128 if that pads the sum by an
// eighth at most, otherwise of 64, 32 or 16; groups of 32, 64 or 128 inputs are never cut.
// Fails (kInvalidArgument) for a degree below 1 or above kMaxDegree, or one that leaves a device
// without any part of the layers.
Result<ShardPlan> make_shard_plan(const ModelConfig& config, int32_t degree, int64_t vocab);

// The part of a module's [out][in] weight that a device holds. A norm has no inputs.
struct ModulePart {
  ShardRange out;
  ShardRange in;
};
ModulePart module_part(const Module& module, const DeviceShard& shard, const ModelConfig& config);
// The share of a module's weights that a device holds, in [0, 1].
double module_share(const Module& module, const DeviceShard& shard, const ModelConfig& config);

}  // namespace forerun
