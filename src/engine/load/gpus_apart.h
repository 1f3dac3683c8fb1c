// Checks that no two processes of a launch share a GPU. Two processes on one GPU would both count
// on all of its memory, and kernels whose blocks wait for each other could deadlock.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "hosts/hosts.h"

namespace forerun {

struct OwnedGpu {
  std::string name;  // name on its host: "cuda:0"
  std::string uuid;  // the same in every process
};

// These GPUs of this process, in the same order. Fails as gpu_uuid().
Result<std::vector<OwnedGpu>> own_gpus(std::span<const int32_t> gpus);

// `gpus`: those of each rank. kInvalidArgument where two ranks have the same GPU; the message has
// its names and `describe` of both ranks.
Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe);

// One round of a launch (Hosts::settle), called by every process with the GPUs that it uses. Where
// check_gpus_apart() refuses the GPUs of all of them, or `own` of any process is a failure, all
// processes fail with it; kCorrupt where another process' list cannot be read.
Status keep_gpus_apart(Hosts& hosts, const Result<std::vector<OwnedGpu>>& own);

}  // namespace forerun
