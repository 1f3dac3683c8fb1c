// A decoder on a group of one or more CPU devices: weights in host memory, a paged KV cache, and
// the forward pass. CpuShard is the part of one device.
//
// Only one thread at a time, the one that runs the group, may call forward(), move_kv() and
// logits().
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
  std::optional<LayerRange> layers;  // layers of the stage; all if unset
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;
  int64_t kv_blocks = 0;  // capacity, in blocks of kKvBlockTokens
  // Number of tokens that can be sampled (the tokenizer's size); logits of other tokens are
  // -infinity and not computed. The config's live_vocab_size is another limit. If unset, all of
  // vocab_size.
  std::optional<int32_t> live_vocab;
  // Only for an EAGLE-3 head: its target, which lends it an embedding and an LM head if it has none
  // of its own, and the target's taps. Both must outlive the decoder.
  const Checkpoint* target = nullptr;
  const TapStore* target_taps = nullptr;
  TapOptions taps;  // taps that Steps may keep; none by default
  // Receives the fraction of the weights that is loaded, in [0, 1], on the calling thread.
  std::function<void(double)> progress;
};

class CpuDecoder : public Decoder {
 public:
  // `checkpoint` and `group` must outlive the decoder. The shard plan of the group's degree gives
  // its parts; fails as make_shard_plan, check_layer_range and check_taps do. Returns
  // kResourceExhausted, with the figures, if the KV cache does not fit into memory beside the
  // weights.
  static Result<std::unique_ptr<Decoder>> load(const Checkpoint& checkpoint, CpuDeviceGroup* group,
                                               CpuDecoderOptions options);

  const ModelConfig& config() const override { return config_; }
  LayerRange layers() const override { return layers_; }
  int64_t kv_blocks() const override { return kv_blocks_; }
  int64_t kv_block_bytes() const override;  // bytes on all devices
  int64_t tap_places() const override { return taps_.places(); }
  // Returns kInvalidArgument, before it runs anything, if a token, position, slot or block is out
  // of range. Also fails as CpuDeviceGroup::run does, or as MappedFile::check does if a file of the
  // weights has changed; then the KV of the Step's rows is undefined.
  Status forward(const Step& step) override;
  bool selects_kv() const override { return !config_.eagle3; }
  double kv_reads_per_selection() const override { return 6.0; }  // measured
  bool quantizes_keys() const override { return selects_kv() && config_.head_dim >= 8; }
  Status check_weights() const override { return files_.check(); }
  int32_t degree() const override { return static_cast<int32_t>(shards_.size()); }
  LogitsPart logits(int32_t rank) const override;
  HiddenRows hidden() const override;
  // Returns the store of the Steps' taps, without places if the options have none. It lives as long
  // as the decoder.
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
  // Checks that the options have what an EAGLE-3 head needs, and that it fits.
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
  WeightFiles files_;  // files of the loaded layers' weights, which are mapped
  RopeTable rope_;
  std::vector<std::unique_ptr<CpuShard>> shards_;  // by rank
  ForwardChunk chunk_;
  int64_t logits_rows_ = 0;
  TapStore taps_;
  // Indices in taps_ of the taps that earlier stages hand in, in this order.
  std::vector<size_t> taps_in_front_;
  const TapStore* target_taps_ = nullptr;  // store of an EAGLE-3 head's target
  std::vector<std::byte> hidden_;  // only without the head; grown to the largest Step so far
  size_t hidden_rows_ = 0;
};

}  // namespace forerun
