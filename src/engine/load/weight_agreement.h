// Checks that the processes of a launch have the same weights: each stage digests the tensors that
// it loads, and the coordinator digests its own copy of all of them.
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

// Returns the number of threads with which this process makes digests: its share of the machine's
// processors.
int32_t digest_threads(const EngineOptions& options);

struct TensorFact {
  std::string name;    // ModuleTensor::name
  std::string file;    // the file that holds it on this host
  std::string digest;  // tensor_digests.h
};

// Digests the tensors that stages of these layers load, each once. Reads those without a kept
// digest in `options.cost_cache`, and reports to `options.on_progress`. Fails as digest_tensors()
// does.
Result<std::vector<TensorFact>> digest_held_tensors(const Checkpoint& checkpoint,
                                                    std::span<const LayerRange> layers,
                                                    const EngineOptions& options);

// Compares digests: the coordinator compares `own` with those of every stage. Every process calls
// it. If a digest differs, all processes fail; the message has the tensor, both files and both
// ranks.
Status agree_on_weights(Hosts& hosts, const std::vector<TensorFact>& own);

}  // namespace forerun
