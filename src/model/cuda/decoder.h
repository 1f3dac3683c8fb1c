// A decoder on one or more GPUs. ShardCuda is the part of one GPU; this class has the Step that all
// of them run, the rows of logits that they fill together, and the handling of their failures.
//
// Only one thread at a time may call forward(), move_kv() and logits().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/team.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/peer_group.h"
#include "model/cuda/handed_taps.h"
#include "model/cuda/load_decoder.h"
#include "model/cuda/predicted_block.h"
#include "model/cuda/shard.h"
#include "model/cuda/step_block.h"
#include "model/cuda/step_logits.h"
#include "model/cuda/tap_store.h"
#include "model/decoder.h"
#include "model/shard_plan.h"

namespace forerun::cuda {

class DecoderCuda : public Decoder {
 public:
  static Result<std::unique_ptr<DecoderCuda>> load(const Checkpoint& checkpoint,
                                                   const DecoderCudaOptions& options);
  ~DecoderCuda() override;

  const ModelConfig& config() const override { return config_; }
  LayerRange layers() const override { return layers_; }
  int64_t kv_blocks() const override { return kv_blocks_; }
  // The observers, half a block of rows, must be in one pass.
  bool selects_kv() const override { return !config_.eagle3 && max_pass_rows_ >= kKvBlockTokens; }
  double kv_reads_per_selection() const override { return 24.0; }  // measured on an H200
  int64_t kv_block_bytes() const override;                         // bytes on all GPUs
  int64_t tap_places() const override { return taps_.places(); }
  Status forward(const Step& step) override;
  Status forward_summarized(const Step& step, std::span<const RowQuery> queries,
                            const StepEdits& edits, const Meanwhile& meanwhile) override;
  bool makes_summaries() const override { return true; }
  // Returns one part with whole rows, whatever the number of GPUs.
  LogitsPart logits(int32_t rank) const override;
  HiddenRows hidden() const override;
  Status read_taps(std::span<const StepTap> taps, std::vector<std::byte>& rows) override;
  Status write_taps(std::span<const StepTap> taps, std::span<const std::byte> rows) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;
  bool has_host_kv() const override { return false; }

  // Returns the store of the Steps' taps, without places if the options have none. It lives as long
  // as the decoder.
  const TapStoreCuda& taps() const { return taps_; }

  // For measurements: one GPU's shard, and `times` repetitions of the last pass.
  int32_t num_shards() const { return static_cast<int32_t>(shards_.size()); }
  ShardCuda& shard(int32_t rank) { return *shards_[static_cast<size_t>(rank)]; }
  Result<float> time_replays(int times);  // mean in ms, on the first GPU
  // Captures the graphs of graph_passes_cuda(), with and without each optional part of a pass, as
  // load() does. Returns the number of graphs per shard.
  Result<int> prepare_graph_passes();

 private:
  DecoderCuda(const ModelConfig& config, const DecoderCudaOptions& options);
  // Checks that the options have what an EAGLE-3 head needs, and that it fits.
  static Status check_head(const ModelConfig& config, const DecoderCudaOptions& options,
                           const LayerRange& layers);
  Status load_shards(const Checkpoint& checkpoint, const DecoderCudaOptions& options,
                     const ShardPlan& plan);
  Status run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row,
                  const StepEdits& edits, const Meanwhile& meanwhile);
  // Calls `work` for every shard, each on its own thread, the first on the caller's. Calls
  // `unusable` instead if the shard's GPU cannot be made current. Returns the first failure by
  // rank.
  Status on_all(const std::function<Status(ShardCuda&)>& work,
                const std::function<void()>& unusable = {});
  // Submits a pass on every GPU and waits for all of them. If one GPU fails, the others stop
  // waiting, and the group is usable again afterwards.
  Status run_all(const std::function<Status(ShardCuda&)>& submit, const Meanwhile& meanwhile = {});

  size_t hidden_row_bytes() const {
    return static_cast<size_t>(config_.hidden_size) * sizeof(bf16);
  }

  ModelConfig config_;
  const LayerRange layers_;
  std::vector<int32_t> devices_;         // by rank
  const DecoderCuda* target_ = nullptr;  // target of an EAGLE-3 head
  int64_t kv_blocks_;
  int32_t max_pass_rows_ = kMaxPassRows;
  RopeTable rope_;
  StepShapeCuda shape_;  // fits all shards
  StepBlockCuda block_;
  PredictedBlockCuda predicted_;
  PinnedBuffer pinned_step_;
  // Only in pipeline stages: a pass's input and output rows, bf16 [kMaxPassRows][hidden]. The first
  // is empty if the stage embeds, the second if it has the head.
  PinnedBuffer hidden_in_, hidden_out_;
  std::vector<std::byte> hidden_;  // from all passes of the last Step; grown to the largest so far
  size_t hidden_rows_ = 0;
  std::optional<PeerGroup> peers_;                  // only with several GPUs
  std::optional<PeerGroup> maxima_;                 // the same, for the largest logits of summaries
  std::unique_ptr<CpuDevice> threads_;              // one thread per GPU
  TapStoreCuda taps_;                               // on the first GPU
  HandedTapsCuda handed_taps_;                      // taps that stages hand on
  std::vector<std::unique_ptr<ShardCuda>> shards_;  // by rank
  std::unique_ptr<StepLogitsCuda> logits_;
};

}  // namespace forerun::cuda
