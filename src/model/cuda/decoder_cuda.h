// A decoder on GPUs. What one GPU does is ShardCuda's; here are the step that all of them run and
// the host threads that drive them: the caller's serves the first GPU, every other has one of its
// own.
//
// forward(), move_kv() and logits() from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "model/cuda/load_decoder_cuda.h"
#include "model/cuda/shard_cuda.h"
#include "model/cuda/step_block_cuda.h"
#include "model/decoder.h"

namespace forerun::cuda {

class DecoderCuda : public Decoder {
 public:
  static Result<std::unique_ptr<DecoderCuda>> load(const Checkpoint& checkpoint,
                                                   const DecoderCudaOptions& options);

  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override { return kv_blocks_; }
  int64_t kv_block_bytes() const override { return shard_->kv_block_bytes(); }
  Status forward(const Step& step) override;
  LogitsPart logits(int32_t rank) const override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

  // For measuring.
  ShardCuda& shard() { return *shard_; }

 private:
  DecoderCuda(const ModelConfig& config, const DecoderCudaOptions& options)
      : config_(config), device_(options.device), kv_blocks_(options.kv_blocks) {}
  Status run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row);
  Status reserve_logits(int64_t rows);

  ModelConfig config_;
  int32_t device_;
  int64_t kv_blocks_;
  RopeTable rope_;
  StepBlockCuda block_;
  PinnedBuffer pinned_step_;
  std::unique_ptr<ShardCuda> shard_;
  PinnedBuffer logits_;  // f32 [rows][the shard's logits_stride()]
  int64_t logits_rows_ = 0;
  int64_t logits_capacity_ = 0;
};

}  // namespace forerun::cuda
