// GPUs of a launch's processes: each is one process's. Two that share one would both count on all
// of its memory, and kernels whose blocks wait for each other could keep each other out for ever.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun {

struct OwnedGpu {
  std::string name;  // where it is: "cuda:0"
  std::string uuid;  // the same wherever it is seen
};

// `gpus`: of each rank. kInvalidArgument, with the GPU's names and `describe` of both ranks, where
// two ranks have the same one.
Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe);

}  // namespace forerun
