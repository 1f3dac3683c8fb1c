// Checks that no two processes of a launch share a GPU. Two processes on one GPU would both count
// on all of its memory, and kernels that use grid-wide barriers could deadlock.
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
  std::string name;  // name on its host, such as "cuda:0"
  std::string uuid;  // the same in every process
};

// Describes these GPUs of this process, in the same order. Fails as gpu_uuid() does.
Result<std::vector<OwnedGpu>> own_gpus(std::span<const int32_t> gpus);

// `gpus` has the GPUs of each rank. Fails with kInvalidArgument if two ranks have the same GPU; the
// message has its names and `describe` of both ranks.
Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe);

// Compares the GPUs of all processes, in one round of a launch (Hosts::settle); every process calls
// it with the GPUs that it uses. If check_gpus_apart() refuses the GPUs of all processes, or `own`
// of any process is a failure, all processes fail with that error. Fails with kCorrupt if another
// process's list cannot be read.
Status keep_gpus_apart(Hosts& hosts, const Result<std::vector<OwnedGpu>>& own);

}  // namespace forerun
