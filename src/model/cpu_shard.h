// One CPU device's part of a decoder or of a pipeline stage: its weights, its KV heads and its
// forward pass through the layers. At degree 1 it is the whole stage.
//
// Between the layers every device of a group holds the same residual stream. Each device adds the
// output of its heads and of its MLP columns to the stream (Collectives::add_partials) and computes
// the logits of its part of the vocabulary at the end; a stage without the head ends with the
// stream itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/collectives.h"
#include "device/cpu/team.h"
#include "forerun/status.h"
#include "kernels/attention/attention.h"
#include "kernels/kv_select/kv_select.h"
#include "kernels/precision.h"
#include "kernels/rope/rope.h"
#include "model/decoder.h"
#include "model/decoder_weights.h"
#include "model/forward_buffers.h"
#include "model/kv_storage.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"
#include "model/tap_store.h"

namespace forerun {

// Up to kMaxChunkRows rows that pass through the layers together; the same on all devices.
struct ForwardChunk {
  // The rows that attend, and their positions in the sequence, which give the RoPE angles.
  struct Rows {
    std::vector<AttentionRow> attend;
    std::vector<int32_t> positions;

    size_t size() const { return attend.size(); }
  };
  std::vector<int32_t> tokens;
  Rows rows;
  std::vector<int32_t> wanted;  // rows that want logits, ascending
  Rows wanted_rows;
  int64_t first_logits_row = 0;
  std::span<const KvSelection> selections;  // selections with observers in this chunk
  std::span<const StepSequence> sequences;  // sequences of the Step
  int32_t first_row = 0;                    // the chunk's first row in the Step
  std::span<const StepFeature> features;    // features of the chunk's rows; empty unless the model
                                            // is an EAGLE-3 head
  std::span<const StepTap> taps;  // taps of the chunk's rows, with row numbers of the Step
  TapStore* tap_store = nullptr;
  // True if rows without logits also go through the whole last layer, because of taps behind it.
  bool keeps_all_rows = false;
  // Hidden rows of a stage, [rows][hidden] in the activation type. A stage without the embedding
  // reads the chunk's rows from `hidden_in`; a stage without the head writes them to `hidden_out`.
  const std::byte* hidden_in = nullptr;
  std::byte* hidden_out = nullptr;

  void reserve();
  void clear();
};

struct CpuShardOptions {
  DeviceShard part;
  LayerRange layers;
  int32_t degree = 1;
  int32_t team_size = 1;
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;
  int64_t kv_blocks = 0;
  int32_t live_vocab = 0;  // see CpuDecoderOptions
  // Only for an EAGLE-3 head; both must outlive the shard.
  const Checkpoint* target = nullptr;
  const TapStore* target_taps = nullptr;
};

class CpuShard {
 public:
  // `checkpoint` and `rope` must outlive the shard. `progress` is as in load_decoder_weights().
  static Result<std::unique_ptr<CpuShard>> load(const Checkpoint& checkpoint,
                                                const CpuShardOptions& options,
                                                const RopeTable* rope,
                                                const std::function<void(double)>& progress);

  KvStorage& kv() { return kv_; }
  const KvStorage& kv() const { return kv_; }

  // Makes room for the logits of this many rows. One thread calls it before the passes of a Step.
  void reserve_logits(int64_t rows);
  // Plans a pass. One thread calls it before each pass.
  void plan(const ForwardChunk& chunk);
  // Runs the pass. Every member of the device's team calls it, on all devices at once. `chunk` must
  // be the one that was planned last.
  void run(const Team& team, Collectives& peers, const ForwardChunk& chunk);
  // Returns the logits of the first `rows` rows.
  LogitsPart logits(int64_t rows) const;

 private:
  CpuShard(const ModelConfig& config, const CpuShardOptions& options, const RopeTable* rope);

  // The functions below are collective. A pass calls them in this order.
  void run_layer(const Team& team, Collectives& peers, const ForwardChunk& chunk,
                 int32_t layer_idx);
  // Writes the heads' outputs to buffers_.attended.
  void run_attention(const Team& team, const ForwardChunk& chunk, int32_t layer_idx, bool narrows);
  // Returns the call by which the chunk's observers choose KV by their queries: those of all rows
  // or, with `narrows`, of the rows with logits.
  KvSelectionCall selection_call(const ForwardChunk& chunk, const KvSelection& selection,
                                 bool narrows) const;
  void keep_wanted_rows(const Team& team, const ForwardChunk& chunk);
  void rotate_and_append(const Team& team, const LayerWeights& layer, const PagedKv& kv,
                         const ForwardChunk::Rows& kv_rows, const ForwardChunk::Rows& q_rows);
  void run_mlp(const Team& team, Collectives& peers, const LayerWeights& layer, int64_t num_rows);
  // Replaces the embedding look-up in an EAGLE-3 head: writes features to x and the input of the
  // first layer to buffers_.joined.
  void begin_with_features(const Team& team, const ForwardChunk& chunk);
  // Reads the features of rows `begin` to `end` - 1: the head's own ones into x, the target's taps,
  // normalized, into consecutive rows of buffers_.taps.
  void read_features(const ForwardChunk& chunk, int64_t begin, int64_t end);
  void run_head(const Team& team, const ForwardChunk& chunk);
  // Moves the logits of a reduced vocabulary to the columns of the target's tokens.
  void spread_logits(const Team& team, const ForwardChunk& chunk);
  // Returns whether x holds only the rows with logits after the last layer.
  bool narrows_last_layer(const ForwardChunk& chunk) const;
  // Copies the tapped rows of x after this many of the model's layers, if the decoder taps there.
  void keep_taps(const Team& team, const ForwardChunk& chunk, int32_t after_layers);
  // Copy the hidden rows of a stage into x, and x into the hidden rows. They sync the team as
  // needed.
  void read_hidden(const Team& team, const ForwardChunk& chunk);
  void write_hidden(const Team& team, const ForwardChunk& chunk);
  // Adds inputs · weightᵀ of all devices and the bias to x. `partial` receives this device's part.
  void add_product(const Team& team, Collectives& peers, const LinearWeight& weight,
                   MatrixView<const float> inputs, std::span<const float> bias,
                   MatrixView<float> partial, MatrixView<float> x);
  // The form in which weights need their input.
  struct InputNeeds {
    WeightFormats formats;
    std::span<const int32_t> order;
    bool second = false;  // keeps the first input
  };
  // Packs the input of the next linear layers: x or, with a norm, its normalization. Syncs the team
  // as needed.
  const LinearInput& pack(const Team& team, MatrixView<const float> x, const InputNeeds& needs);
  const LinearInput& pack_normalized(const Team& team, int64_t num_rows,
                                     std::span<const float> weight, const InputNeeds& needs);
  // Packs the input of the layer's q, k and v.
  const LinearInput& pack_attention_input(const Team& team, int64_t num_rows,
                                          const LayerWeights& layer, const InputNeeds& needs);
  // Returns `packed` if its order of inputs, `order`, is the weight's order; else packs the input
  // again and replaces the order.
  const LinearInput& repack_if_needed(const Team& team, int64_t num_rows, const LayerWeights& layer,
                                      const LinearWeight& weight, const LinearInput& packed,
                                      std::span<const int32_t>& order);

  MatrixView<float> hidden(int64_t rows) { return buffers_.hidden(rows); }
  int64_t logits_width() const {
    return draft_tokens_.empty() ? weights_.head.out_features() : live_vocab_;
  }
  bool rounds() const { return activation_ != Activation::kF32; }
  // Number of query heads that the device's KV heads serve: its own and padding.
  int32_t num_slots() const { return num_kv_heads_ * group_; }

  const ModelConfig& config_;  // the checkpoint's
  const DeviceShard part_;
  const LayerRange layers_;
  const int32_t group_;  // query heads per KV head
  const int32_t num_kv_heads_;
  const Activation activation_;
  const int32_t team_size_;
  const RopeTable* rope_;
  DecoderWeights weights_;
  KvStorage kv_;
  AttentionScratch attention_scratch_;
  KvSelectionScratch selection_scratch_;
  AttentionPlan plan_, wanted_plan_;
  ForwardBuffers buffers_;
  const int32_t live_vocab_;
  const TapStore* const target_taps_;
  std::span<const int32_t> draft_tokens_;  // Checkpoint::draft_tokens()
  std::unique_ptr<float[]> draft_logits_;  // [rows of a chunk][draft tokens], if there are any
  std::unique_ptr<float[]> logits_;        // [rows][logits_width()]
  int64_t logits_capacity_ = 0;
};

}  // namespace forerun
