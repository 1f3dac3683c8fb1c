// A decoder on a group of CPU devices, one or several: weights in host memory, a paged KV cache,
// the forward pass. CpuShard is the part of one device.
//
// Call forward(), move_kv() and logits() from one thread at a time, the one that runs the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_files.h"
#include "device/cpu/device_group.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "kernels/rope/rope.h"
#include "model/cpu_shard.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/tap_store.h"
#include "step/step.h"

namespace forerun {

struct CpuDecoderOptions {
  std::optional<LayerRange> layers;  // the stage's layers; unset: all
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;
  int64_t kv_blocks = 0;  // capacity, in blocks of kKvBlockTokens
  // Tokens that can ever be sampled (the tokenizer's size); logits beyond are -infinity and not
  // computed. The config's live_vocab_size counts too; unset: all of vocab_size.
  std::optional<int32_t> live_vocab;
  // Only for an EAGLE-3 head: the model that it guesses for, whose embedding and LM head it uses
  // where it has none of its own, and that model's taps. Both must outlive the decoder.
  const Checkpoint* target = nullptr;
  const TapStore* target_taps = nullptr;
  TapOptions taps;  // what Steps may keep of their rows; none by default
  // Gets the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

class CpuDecoder : public Decoder {
 public:
  // `checkpoint` and `group` must outlive the decoder. Its parts follow the shard plan of the
  // group's degree; fails as make_shard_plan, check_layer_range and check_taps do. Refuses a KV
  // cache that does not fit into memory beside the weights, with the figures (kResourceExhausted).
  static Result<std::unique_ptr<Decoder>> load(const Checkpoint& checkpoint, CpuDeviceGroup* group,
                                               CpuDecoderOptions options);

  const ModelConfig& config() const override { return config_; }
  LayerRange layers() const override { return layers_; }
  int64_t kv_blocks() const override { return kv_blocks_; }
  int64_t kv_block_bytes() const override;  // bytes on all devices together
  int64_t tap_places() const override { return taps_.places(); }
  // Fails (kInvalidArgument) on a token, position, slot or block out of range, before anything is
  // run. Also fails as CpuDeviceGroup::run does, or as MappedFile::check does where a file of its
  // weights has changed; then the KV of the Step's rows is undefined.
  Status forward(const Step& step) override;
  bool selects_kv() const override { return !config_.eagle3; }
  double kv_reads_per_selection() const override { return 6.0; }  // measured
  bool quantizes_keys() const override { return selects_kv() && config_.head_dim >= 8; }
  Status check_weights() const override { return files_.check(); }
  int32_t degree() const override { return static_cast<int32_t>(shards_.size()); }
  LogitsPart logits(int32_t rank) const override;
  HiddenRows hidden() const override;
  // Where Steps' taps are; no places where the options have none. Lives as long as the decoder.
  const TapStore& taps() const { return taps_; }
  Status read_taps(std::span<const StepTap> taps, std::vector<std::byte>& rows) override;
  Status write_taps(std::span<const StepTap> taps, std::span<const std::byte> rows) override;
  Status move_kv(const StepSequence& sequence, std::span<const KvMove> moves) override;

 private:
  CpuDecoder(const ModelConfig& config, const LayerRange& layers, Activation activation,
             CpuDeviceGroup* group)
      : config_(config),
        layers_(layers),
        hidden_dtype_(activation == Activation::kF32 ? DType::kF32 : DType::kBf16),
        group_(group) {}
  // Whether an EAGLE-3 head's options are there and fit.
  static Status check_head(const ModelConfig& config, const CpuDecoderOptions& options,
                           const LayerRange& layers, int32_t degree);
  static size_t chunk_end(const Step& step, size_t begin);
  void fill_chunk(const Step& step, size_t begin, size_t end);
  void fill_taps(const Step& step, size_t begin, size_t end);
  size_t hidden_row_bytes() const {
    return static_cast<size_t>(config_.hidden_size) *
           static_cast<size_t>(dtype_bytes(hidden_dtype_));
  }

  ModelConfig config_;
  const LayerRange layers_;
  const DType hidden_dtype_;
  CpuDeviceGroup* group_;
  int64_t kv_blocks_ = 0;
  WeightFiles files_;  // the files of its layers, whose weights are read from the map
  RopeTable rope_;
  std::vector<std::unique_ptr<CpuShard>> shards_;  // by rank
  ForwardChunk chunk_;
  int64_t logits_rows_ = 0;
  TapStore taps_;
  std::vector<size_t> taps_in_front_;      // indices in taps_ of those that are handed in, in this
                                           // order
  const TapStore* target_taps_ = nullptr;  // the target's store, for an EAGLE-3 head
  std::vector<std::byte> hidden_;  // only without the head; grown to the largest Step so far
  size_t hidden_rows_ = 0;
};

}  // namespace forerun
