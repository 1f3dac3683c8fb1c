// How the processes of a launch agree while they load their parts of the models.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "engine/load/gpu.h"
#include "engine/load/loaded_models.h"
#include "engine/load/weight_agreement.h"
#include "hosts/hosts.h"

namespace forerun {
namespace {

Bytes write_plan(const MemoryPlan& plan) {
  Bytes bytes;
  ByteWriter to(&bytes);
  to.number(plan.max_context_tokens);
  to.number(plan.target_blocks);
  return bytes;
}

Status read_plan(const Bytes& bytes, MemoryPlan& plan) {
  ByteReader from(bytes);
  plan.max_context_tokens = from.number<int32_t>("context");
  plan.target_blocks = from.number<int64_t>("KV blocks");
  if (plan.max_context_tokens < 1 || plan.target_blocks < 1) {
    from.fail("memory plan", "found none");
  }
  return from.finish();
}

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

Result<std::vector<OwnedGpu>> LoadedModels::own_gpus() const {
  std::vector<OwnedGpu> own;
  for (const Part& model : parts_) {
    for (const Stage& stage : model.stages) {
      if (!stage.is_here) continue;
      for (const int32_t gpu : stage.gpus) {
        FORERUN_ASSIGN_OR_RETURN(std::string uuid, gpu_uuid(gpu));
        own.push_back({"cuda:" + std::to_string(gpu), std::move(uuid)});
      }
    }
  }
  return own;
}

Status LoadedModels::keep_gpus_apart() {
  const Result<std::vector<OwnedGpu>> own = own_gpus();
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(write_gpus(*own)) : own.status();
  const auto compare = [&](const std::vector<Bytes>& reports) -> Result<Bytes> {
    std::vector<std::vector<OwnedGpu>> gpus = {*own};
    for (const Bytes& report : reports) {
      FORERUN_ASSIGN_OR_RETURN(gpus.emplace_back(), read_gpus(report));
    }
    FORERUN_RETURN_IF_ERROR(
        check_gpus_apart(gpus, [this](int32_t rank) { return hosts_->describe(rank); }));
    return Bytes();
  };
  return hosts_->settle(own_report, compare).status();
}

// Every process has planned as if the other processes had enough memory.
Status LoadedModels::plan_together(const Status& own) {
  const Result<Bytes> own_report = own.ok() ? Result<Bytes>(write_plan(memory_)) : own;
  FORERUN_ASSIGN_OR_RETURN(
      const Bytes settled,
      hosts_->settle(own_report, [this](const std::vector<Bytes>& reports) -> Result<Bytes> {
        MemoryPlan least = memory_;
        for (const Bytes& report : reports) {
          MemoryPlan plan;
          FORERUN_RETURN_IF_ERROR(read_plan(report, plan));
          least.max_context_tokens = std::min(least.max_context_tokens, plan.max_context_tokens);
          least.target_blocks = std::min(least.target_blocks, plan.target_blocks);
        }
        return write_plan(least);
      }));
  FORERUN_RETURN_IF_ERROR(read_plan(settled, memory_));
  if (has_draft() && memory_.draft_window == 0) memory_.draft_blocks = memory_.target_blocks;
  return {};
}

Status LoadedModels::load_with_others(const ModelsToLoad& models) {
  const Checkpoint& checkpoint = part(Role::kTarget).opened->checkpoint;
  Result<std::vector<TensorFact>> weights = std::vector<TensorFact>();
  // A stage makes its digests before it loads, which leaves the pages in memory for loading. The
  // coordinator makes its own afterwards, while the stages load.
  if (!hosts_->is_coordinator()) {
    const LayerRange own = target_layers()[static_cast<size_t>(hosts_->rank() - 1)];
    weights = digest_held_tensors(checkpoint, {&own, 1}, *models.options);
  }
  Status status = weights.status();
  if (status.ok()) status = load_parts(models);
  if (status.ok() && hosts_->is_coordinator()) {
    weights = digest_held_tensors(checkpoint, target_layers(), *models.options);
    status = weights.status();
  }
  FORERUN_RETURN_IF_ERROR(exchange_facts(status));
  return agree_on_weights(*hosts_, *weights);
}

Status LoadedModels::exchange_facts(const Status& loaded) {
  std::vector<Stage>& stages = part(Role::kTarget).stages;
  Result<Bytes> own_report = loaded.ok() ? Result<Bytes>(Bytes()) : loaded;
  if (!hosts_->is_coordinator() && loaded.ok()) {
    const StageFacts& facts = stages[static_cast<size_t>(hosts_->rank() - 1)].facts;
    ByteWriter to(&*own_report);
    to.number(facts.kv_block_bytes);
    to.flag(facts.quantizes_keys);
    to.flag(facts.selects_kv);
    to.number(facts.kv_reads_per_selection);
  }
  const auto hear = [&stages](const std::vector<Bytes>& reports) -> Result<Bytes> {
    for (size_t idx = 0; idx < reports.size(); ++idx) {
      StageFacts& facts = stages[idx].facts;
      ByteReader from(reports[idx]);
      facts.kv_block_bytes = from.number<int64_t>("bytes of a KV block");
      facts.quantizes_keys = from.flag("quantizes keys");
      facts.selects_kv = from.flag("selects KV");
      facts.kv_reads_per_selection = from.number<double>("KV reads per selection");
      FORERUN_RETURN_IF_ERROR(from.finish());
    }
    return Bytes();
  };
  return hosts_->settle(own_report, hear).status();
}

}  // namespace forerun
