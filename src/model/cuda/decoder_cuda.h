// A decoder on one GPU: weights and a paged cache in its memory, forwards as replays of graphs.
//
// forward(), move_kv() and logits() from one thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "model/cuda/decoder_weights_cuda.h"
#include "model/cuda/load_decoder_cuda.h"
#include "model/cuda/step_block_cuda.h"
#include "model/decoder.h"

namespace forerun::cuda {

class DecoderCuda : public Decoder {
 public:
  static Result<std::unique_ptr<DecoderCuda>> load(const Checkpoint& checkpoint,
                                                   const DecoderCudaOptions& options);

  const ModelConfig& config() const override { return config_; }
  int64_t kv_blocks() const override { return kv_blocks_; }
  int64_t kv_block_bytes() const override { return kv_block_stride(); }
  Status forward(const Step& step) override;
  LogitsPart logits(int32_t rank) const override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

  // For measuring: submits the graph of the last pass again, `times` in a row.
  Status replay(int times);
  const Stream& stream() const { return stream_; }

 private:
  // What a graph is made for: rows and rows that want logits, both rounded up, and how attention
  // works.
  struct GraphKey {
    int32_t rows = 0;
    int32_t wanted = 0;
    AttentionMode mode = AttentionMode::kSplit;
    bool long_contexts = false;
    auto operator<=>(const GraphKey&) const = default;
  };

  DecoderCuda(const ModelConfig& config, int32_t device, Stream stream)
      : config_(config), device_(device), stream_(std::move(stream)) {}
  Status allocate(int64_t kv_blocks);
  Status run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row);
  // Submits all kernels of a pass.
  Status submit(const GraphKey& key);
  Status submit_layer(size_t layer_idx, const GraphKey& key);
  PagedKvCuda layer_kv(size_t layer_idx) const;
  int64_t kv_block_stride() const { return int64_t{config_.num_layers} * layer_kv_bytes_; }
  Status reserve_logits(int64_t rows);

  ModelConfig config_;
  int32_t device_;
  Stream stream_;
  DecoderWeightsCuda weights_;
  QkvLayout qkv_;
  RopeTable rope_;
  StepShapeCuda shape_;
  StepBlockCuda block_;
  std::map<GraphKey, Graph> graphs_;
  const Graph* last_graph_ = nullptr;

  int64_t kv_blocks_ = 0;
  int64_t layer_kv_bytes_ = 0;
  DeviceBuffer kv_;
  PinnedBuffer pinned_step_;
  DeviceBuffer step_;
  // Activations of a pass, bf16: [kMostPassRows][..].
  DeviceBuffer hidden_, normalized_, qkv_out_, q_, attended_, mlp_;
  DeviceBuffer partials_, arrivals_, failed_;
  // f32 [rows][live vocabulary, in whole tiles]
  DeviceBuffer device_logits_;
  PinnedBuffer logits_;
  int64_t logits_rows_ = 0;
  int64_t logits_capacity_ = 0;
};

}  // namespace forerun::cuda
