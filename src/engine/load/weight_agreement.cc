#include "engine/load/weight_agreement.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/tensor_digests.h"
#include "device/cpu/team.h"
#include "engine/load/cache_folders.h"
#include "model/held_tensors.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<TensorFact> auto& fact) {
  visit("name", fact.name);
  visit("file", fact.file);
  visit("digest", fact.digest);
}

namespace {

constexpr const char* kFolder = "tensor-digests";

}  // namespace

int32_t digest_threads(const EngineOptions& options) {
  return std::max<int32_t>(
      1, static_cast<int32_t>(available_cores().size()) / options.hosts->place().ranks);
}

Result<std::vector<TensorFact>> digest_held_tensors(const Checkpoint& checkpoint,
                                                    std::span<const LayerRange> layers,
                                                    const EngineOptions& options) {
  std::vector<ModuleTensor> held = held_tensors(checkpoint, layers);
  std::vector<const RawTensor*> tensors;
  for (const ModuleTensor& each : held) tensors.push_back(each.tensor);
  DigestOptions how;
  how.folder = digest_folder(options, kFolder);
  how.threads = digest_threads(options);
  if (options.on_progress) {
    how.progress = [&options](double fraction) {
      options.on_progress("comparing weights", fraction);
    };
  }
  FORERUN_ASSIGN_OR_RETURN(TensorDigests made, digest_tensors(checkpoint, tensors, how));
  std::vector<TensorFact> facts;
  for (size_t idx = 0; idx < held.size(); ++idx) {
    facts.push_back({std::move(held[idx].name), std::move(made.tensors[idx].file),
                     std::move(made.tensors[idx].digest)});
  }
  return facts;
}

Status agree_on_weights(Hosts& hosts, const std::vector<TensorFact>& own) {
  const auto compare = [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
    std::map<std::string_view, const TensorFact*> by_name;
    for (const TensorFact& fact : own) by_name[fact.name] = &fact;
    for (size_t stage = 0; stage < reports.size(); ++stage) {
      std::vector<TensorFact> stage_facts;
      FORERUN_RETURN_IF_ERROR(from_bytes("tensors", reports[stage], stage_facts));
      for (const TensorFact& fact : stage_facts) {
        const auto found = by_name.find(fact.name);
        if (found != by_name.end() && found->second->digest == fact.digest) continue;
        const TensorFact own_fact =
            found != by_name.end() ? *found->second : TensorFact{"", "none", "none"};
        return Status(StatusCode::kInvalidArgument,
                      "weights: tensor " + fact.name + ": " +
                          hosts.describe(static_cast<int32_t>(stage) + 1) + " has other bytes in " +
                          fact.file + " (digest " + fact.digest + ") than " + hosts.describe(0) +
                          " in " + own_fact.file + " (" + own_fact.digest +
                          "); accepted: the same bytes in all processes");
      }
    }
    return Bytes();
  };
  return hosts.settle(hosts.is_coordinator() ? Bytes() : to_bytes(own), compare).status();
}

}  // namespace forerun
