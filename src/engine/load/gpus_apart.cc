#include "engine/load/gpus_apart.h"

#include <map>
#include <utility>

namespace forerun {

Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe) {
  std::map<std::string, std::pair<int32_t, std::string>> owners;  // rank and name, by uuid
  for (size_t idx = 0; idx < gpus.size(); ++idx) {
    const auto rank = static_cast<int32_t>(idx);
    for (const OwnedGpu& gpu : gpus[idx]) {
      const auto [owner, is_new] = owners.try_emplace(gpu.uuid, rank, gpu.name);
      const auto& [other, other_name] = owner->second;
      if (is_new || other == rank) continue;
      return Status(StatusCode::kInvalidArgument,
                    "devices: found one GPU in two processes, " + other_name + " of " +
                        describe(other) + " and " + gpu.name + " of " + describe(rank) +
                        "; accepted: another GPU for each process, such as --target-devices "
                        "cuda:0/cuda:1 for two stages of one host");
    }
  }
  return {};
}

}  // namespace forerun
