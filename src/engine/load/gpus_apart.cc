#include "engine/load/gpus_apart.h"

#include <map>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/gpu.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

Result<std::vector<OwnedGpu>> own_gpus(std::span<const int32_t> gpus) {
  std::vector<OwnedGpu> own;
  for (const int32_t gpu : gpus) {
    FORERUN_ASSIGN_OR_RETURN(std::string uuid, gpu_uuid(gpu));
    own.push_back({"cuda:" + std::to_string(gpu), std::move(uuid)});
  }
  return own;
}

Status check_gpus_apart(const std::vector<std::vector<OwnedGpu>>& gpus,
                        const std::function<std::string(int32_t rank)>& describe) {
  std::map<std::string, std::pair<int32_t, std::string>> owners;  // rank and name, keyed by UUID
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

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<OwnedGpu> auto& gpu) {
  visit("name", gpu.name);
  visit("uuid", gpu.uuid);
}

Status keep_gpus_apart(Hosts& hosts, const Result<std::vector<OwnedGpu>>& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(to_bytes(*own)) : own.status();
  const auto compare = [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
    std::vector<std::vector<OwnedGpu>> gpus = {*own};
    for (const Bytes& report : reports) {
      FORERUN_RETURN_IF_ERROR(from_bytes("GPUs", report, gpus.emplace_back()));
    }
    FORERUN_RETURN_IF_ERROR(
        check_gpus_apart(gpus, [&hosts](int32_t rank) { return hosts.describe(rank); }));
    return Bytes();
  };
  return hosts.settle(own_report, compare).status();
}

}  // namespace forerun
