// Checks that no two processes of a launch share a GPU. Two processes on one GPU would both count
// on all of its memory, and kernels whose blocks wait for each other could deadlock.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct OwnedGpu {
  std::string name;  // on its host: "cuda:0"
  std::string uuid;  // the same in every process
};

// `gpus`: those of each rank. kInvalidArgument where two ranks have the same GPU; the message has
// its names and `describe` of both ranks.
Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe);

}  // namespace forerun
