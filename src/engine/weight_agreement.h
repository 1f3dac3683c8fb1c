// Whether the processes of a launch have the same weights: each stage makes digests of the tensors
// that it loads, and the coordinator of its own copy of all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "hosts/hosts.h"
#include "model/layer_range.h"

namespace forerun {

struct TensorFact {
  std::string name;    // as decoder_tensors() has it, of AWQ's parts their own
  std::string file;    // in which it lies here
  std::string digest;  // tensor_digests.h
};

// The tensors that stages of these layers load, each once. Reads all of them, where their digests
// have not been kept beside `options.cost_cache`; tells `options.on_progress`. Fails as
// digest_tensors().
Result<std::vector<TensorFact>> digest_held_tensors(const Checkpoint& checkpoint,
                                                    std::span<const LayerRange> layers,
                                                    const EngineOptions& options);

// How much a stage of these layers loads.
int64_t held_bytes(const Checkpoint& checkpoint, const LayerRange& layers);

// The coordinator compares its own with those of every stage, and all fail where one differs,
// naming tensor, files and ranks.
Status agree_on_weights(Hosts& hosts, const std::vector<TensorFact>& own);

}  // namespace forerun
