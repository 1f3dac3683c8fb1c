// A decoder on one CPU device: weights in host memory, a paged KV cache, the forward pass.
//
// forward(), move_kv() and logits() from one thread at a time, the one that runs the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cpu/team.h"
#include "forerun/status.h"
#include "kernels/attention/attention.h"
#include "kernels/precision.h"
#include "kernels/rope/rope.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/forward_buffers.h"
#include "model/kv_storage.h"
#include "step/step.h"

namespace forerun {

struct CpuDecoderOptions {
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;
  int64_t kv_blocks = 0;  // capacity, in blocks of kKvBlockTokens
  // Tokens that can ever be sampled (the tokenizer's size); logits beyond are -infinity and not
  // computed. The config's live_vocab_size counts too; unset: all of vocab_size.
  std::optional<int32_t> live_vocab;
  // Told the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

class CpuDecoder : public Decoder {
 public:
  // `checkpoint` and `device` must outlive the decoder. Refuses a KV cache that does not fit into
  // memory beside the weights, with the figures (kResourceExhausted).
  static Result<std::unique_ptr<Decoder>> load(const Checkpoint& checkpoint, CpuDevice* device,
                                               CpuDecoderOptions options);

  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override { return kv_.num_blocks(); }
  int64_t kv_block_bytes() const override { return kv_.block_bytes(); }
  // Fails (kInvalidArgument) on a token, position, slot or block out of range, with nothing run.
  Status forward(const Step& step) override;
  MatrixView<const float> logits() const override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

 private:
  // The rows that one pass through the layers works on.
  struct Chunk {
    std::vector<int32_t> tokens;
    std::vector<AttentionRow> rows;
    std::vector<int32_t> wanted;  // rows that want logits, ascending
    std::vector<AttentionRow> wanted_rows;
    AttentionPlan plan, wanted_plan;
    int64_t first_logits_row = 0;
  };

  CpuDecoder(const ModelConfig& config, CpuDevice* device, const CpuDecoderOptions& options);
  Status check(const Step& step) const;
  void plan_chunk(const Step& step, size_t begin, size_t end);
  void reserve_logits(int64_t rows);

  // Collective, in the order of a pass.
  void run_chunk(const Team& team);
  void run_layer(const Team& team, int32_t layer_idx);
  void keep_wanted_rows(const Team& team, int64_t num_rows);
  void rotate_and_append(const Team& team, const LayerWeights& layer, const PagedKv& kv,
                         std::span<const AttentionRow> kv_rows,
                         std::span<const AttentionRow> q_rows);
  void run_mlp(const Team& team, const LayerWeights& layer, int64_t num_rows);
  void run_head(const Team& team);
  // The packed input of the layers that follow: x, or its normalization. Synced where it must be.
  const LinearInput& pack(const Team& team, MatrixView<const float> x, WeightFormats formats);
  const LinearInput& pack_normalized(const Team& team, int64_t num_rows,
                                     std::span<const float> weight, WeightFormats formats);

  MatrixView<float> hidden(int64_t rows) { return buffers_.hidden(rows); }
  bool rounds() const { return activation_ != Activation::kF32; }

  ModelConfig config_;
  CpuDevice* device_;
  Activation activation_;
  DecoderWeights weights_;
  KvStorage kv_;
  RopeTable rope_;
  AttentionScratch attention_scratch_;
  ForwardBuffers buffers_;
  Chunk chunk_;
  std::unique_ptr<float[]> logits_;
  int64_t logits_rows_ = 0;
  int64_t logits_capacity_ = 0;
};

}  // namespace forerun
