#include "engine/load/host_agreement.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/hex.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/side_files.h"
#include "engine/load/build_fingerprint.h"
#include "kernels/restrict_isa.h"
#include "text/hash_bytes.h"
#include "wire/wire_reader.h"
#include "wire/wire_writer.h"

namespace forerun {
namespace {

// Returns a digest of the names, types and shapes of all tensors. weight_agreement.h compares the
// tensors' bytes while they are loaded.
std::string tensors_fingerprint(const Checkpoint& checkpoint) {
  uint64_t hash = 0;
  for (const RawTensor& tensor : checkpoint.tensors()) {
    hash = text::hash_bytes(tensor.name, hash);
    hash = text::hash_bytes(format_name(tensor), hash);
    for (const int64_t size : tensor.shape) {
      hash = text::mix_bits(hash ^ static_cast<uint64_t>(size));
    }
  }
  return hex(hash);
}

std::string numbers(const std::vector<int32_t>& list) {
  std::string text;
  for (const int32_t number : list) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

HostFacts build_facts() { return {{"version", FORERUN_VERSION}, {"build", build_fingerprint()}}; }

HostFacts facts_of_host(const EngineOptions& options, const ModelsToLoad& to_load,
                        const Placement& placement) {
  const OpenedModel& target = *to_load.of(Role::kTarget).opened;
  HostFacts facts = {{"kind of devices", placement.target.on_gpus() ? "cuda" : "cpu"}};
  for (auto& [name, value] : description_facts(target.checkpoint)) {
    facts.emplace_back(std::move(name), std::move(value));
  }
  const HostFacts rest = {
      {"names, types and shapes of tensors", tensors_fingerprint(target.checkpoint)},
      {"tokens of the model", std::to_string(target.live_vocab())},
      {"stages", std::to_string(placement.target.num_stages())},
      {"stage layers", numbers(options.stage_layers)},
      {"target devices", options.devices},
      {"weights", options.weights},
      {"activations", options.activations},
      {"context", std::to_string(options.max_context_tokens)},
      {"KV memory", std::to_string(options.kv_memory_bytes)},
      {"active requests", std::to_string(options.max_active_requests)}};
  facts.insert(facts.end(), rest.begin(), rest.end());
  return facts;
}

namespace {

// The instruction set that a rank reports.
struct IsaReport {
  Isa isa = Isa::kScalar;
};

template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<IsaReport> auto& report) {
  visit.choice("instruction set", report.isa, Isa::kAmx);
}

Result<Isa> read_isa(const Bytes& bytes) {
  IsaReport report;
  FORERUN_RETURN_IF_ERROR(from_bytes("report", bytes, report));
  return report.isa;
}

Bytes write_isa(Isa isa) { return to_bytes(IsaReport{isa}); }

// Returns the log line that names the instruction set of all hosts, the ranks that have no better
// one, and the sets of the other ranks.
std::string describe_choice(const std::vector<Isa>& of_ranks, Isa least, const Hosts& hosts) {
  std::string of_least;
  std::string of_others;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::string who = hosts.describe(static_cast<int32_t>(rank));
    if (of_ranks[rank] == least) {
      of_least += (of_least.empty() ? "" : ", ") + who;
    } else {
      of_others += (of_others.empty() ? "" : ", ") + who + " with " + isa_name(of_ranks[rank]);
    }
  }
  return std::string("instruction set: all hosts use ") + isa_name(least) + ", the best of " +
         of_least + "; better ones: " + of_others;
}

}  // namespace

Status agree_on_isa(Hosts& hosts) {
  const auto choose = [&hosts](const std::vector<Bytes>& reports) -> Result<Bytes> {
    std::vector<Isa> of_ranks = {current_isa()};
    for (const Bytes& report : reports) {
      FORERUN_ASSIGN_OR_RETURN(of_ranks.emplace_back(), read_isa(report));
    }
    const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
    if (*least != *most) log_line(LogLevel::kWarning, describe_choice(of_ranks, *least, hosts));
    return write_isa(*least);
  };
  FORERUN_ASSIGN_OR_RETURN(const Bytes chosen, hosts.settle(write_isa(current_isa()), choose));
  FORERUN_ASSIGN_OR_RETURN(const Isa isa, read_isa(chosen));
  return restrict_isa(isa);
}

}  // namespace forerun
