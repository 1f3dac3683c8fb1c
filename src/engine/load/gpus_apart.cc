#include "engine/load/gpus_apart.h"

#include <map>
#include <utility>

#include "base/status_macros.h"
#include "engine/load/gpu.h"
#include "hosts/bytes.h"

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

namespace {

Bytes write_gpus(const std::vector<OwnedGpu>& gpus) {
  Bytes bytes;
  ByteWriter to(&bytes);
  to.count(gpus.size());
  for (const OwnedGpu& gpu : gpus) {
    to.text(gpu.name);
    to.text(gpu.uuid);
  }
  return bytes;
}

Result<std::vector<OwnedGpu>> read_gpus(const Bytes& bytes) {
  ByteReader from(bytes);
  std::vector<OwnedGpu> gpus;
  // Every text takes at least the bytes of its length.
  for (size_t left = from.count("GPUs", 2 * sizeof(uint64_t)); left > 0; --left) {
    OwnedGpu& gpu = gpus.emplace_back();
    gpu.name = from.text("GPU");
    gpu.uuid = from.text("GPU");
  }
  FORERUN_RETURN_IF_ERROR(from.finish());
  return gpus;
}

}  // namespace

Status keep_gpus_apart(Hosts& hosts, const Result<std::vector<OwnedGpu>>& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(write_gpus(*own)) : own.status();
  const auto compare = [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
    std::vector<std::vector<OwnedGpu>> gpus = {*own};
    for (const Bytes& report : reports) {
      FORERUN_ASSIGN_OR_RETURN(gpus.emplace_back(), read_gpus(report));
    }
    FORERUN_RETURN_IF_ERROR(
        check_gpus_apart(gpus, [&hosts](int32_t rank) { return hosts.describe(rank); }));
    return Bytes();
  };
  return hosts.settle(own_report, compare).status();
}

}  // namespace forerun
