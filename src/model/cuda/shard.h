// One GPU's part of a decoder or of a pipeline stage: its weights, its KV heads, its activations,
// and the graphs of its passes through the layers. At degree 1 it is the whole stage.
//
// Only one thread at a time may call a shard, with the shard's GPU current (use()).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "device/cuda/peer_mailboxes.h"
#include "kernels/attention/cuda/attention.h"
#include "kernels/linear/cuda/linear.h"
#include "kernels/logits_summary/logits_summary.h"
#include "kernels/rms_norm/cuda/rms_norm.h"
#include "model/cuda/decoder_weights.h"
#include "model/cuda/head_input.h"
#include "model/cuda/shard_layout.h"
#include "model/cuda/step_block.h"
#include "model/cuda/tap_store.h"
#include "model/decoder_weights.h"
#include "model/layer_range.h"

namespace forerun::cuda {

// The key of a pass's graph: its rows and its rows with logits, both rounded up (pass_bucket), the
// variant of attention, and flags for the optional parts of a pass.
struct PassKeyCuda {
  int32_t rows = 0;
  int32_t wanted = 0;
  AttentionKernel kernel = AttentionKernel::kSplitKv;
  SharedPrefix shared_prefix = SharedPrefix::kNone;
  bool keeps_taps = false;
  bool projects_taps = false;  // in a trained head: rows start from taps of the target
  auto operator<=>(const PassKeyCuda&) const = default;
};

class ShardCuda;

struct ShardCudaOptions {
  int32_t device = 0;
  DeviceShard part;  // without tokens in a stage without the head
  LayerRange layers;
  int64_t kv_blocks = 0;
  WeightOverride weights = WeightOverride::kAsStored;  // as in DecoderCudaOptions
  const std::byte* step = nullptr;  // mapped host memory with a pass's StepBlockCuda
  // Only in a stage that does not embed: mapped host memory with a pass's rows, bf16
  // [rows][hidden].
  const std::byte* hidden_in = nullptr;
  const PeerMailboxes* peers = nullptr;  // mailboxes in the group; null at degree 1
  // Mailboxes for the largest logits of rows, and the ranks that have tokens, one bit each. If
  // null, summaries measure weights relative to the part's own largest logits.
  const PeerMailboxes* maxima = nullptr;
  uint32_t ranks_with_head = 0;
  // True if another part is on the same GPU. Then a kernel that waits for the other part may
  // neither let its successors start nor use more than half of an SM, because the other part's
  // kernels would find no room.
  bool shares_gpu = false;
  const TapStoreCuda* taps = nullptr;  // store in which passes keep taps, or null
  // Only in an EAGLE-3 head: its target, the target's part on the same GPU, and the target's taps
  // there.
  const Checkpoint* target = nullptr;
  const ShardCuda* target_shard = nullptr;
  const TapStoreCuda* target_taps = nullptr;
};

// The destination of a pass's whole rows of logits: f32 [queries.size()][stride], page-locked.
// Every shard writes the columns of its own tokens. Only rows that are asked for whole are copied
// there.
struct HostLogits {
  float* rows = nullptr;
  int64_t stride = 0;
  std::span<const RowQuery> queries;
};

// The destination of a pass's rows after the stage's last layer: bf16 [count][hidden], page-locked.
struct HostHidden {
  std::byte* rows = nullptr;  // null if nobody wants them
  int64_t count = 0;
};

class ShardCuda {
 public:
  // The pointers of `options` must outlive the shard. `progress` receives the fraction of the
  // weights loaded.
  static Result<std::unique_ptr<ShardCuda>> load(const Checkpoint& checkpoint,
                                                 const ShardCudaOptions& options,
                                                 const std::function<void(double)>& progress);

  Status use() const;  // makes the shard's GPU current
  const StepShapeCuda& shape() const { return shape_; }
  const ShardLayoutCuda& layout() const { return layout_; }
  int64_t kv_block_bytes() const { return layers_.size() * layer_kv_bytes_; }

  // prepare() captures a pass's graph. launch() submits the pass for the Step in the mapped memory:
  // by its graph, by the graph of the pass without the head and then the head's kernels, or kernel
  // by kernel. It also submits the copy of the pass's logits or hidden rows. finish() waits for all
  // submitted work. Graphs are made while no pass runs on any GPU of the process: while kernels of
  // one GPU wait for those of another, no thread may build a graph.
  Status prepare(const PassKeyCuda& key);
  // Returns whether the pass must have its own graph before launch(): only if graphs are edited.
  bool must_prepare(const PassKeyCuda& key) const {
    return edit_ != nullptr && key.rows <= kMaxGraphRows && !graphs_.contains(key);
  }
  // Submits a pass; one with `selections` goes kernel by kernel. `before_head` writes the data that
  // the head's kernels still need; if there is a graph of the layers alone, it already runs by
  // then.
  Status launch(const PassKeyCuda& key, const HostLogits& logits, const HostHidden& hidden = {},
                std::span<const PassSelectionCuda> selections = {},
                const std::function<void()>& before_head = {});
  Status finish();
  // The weights that an EAGLE-3 head on the same GPU may share: the embedding table, and the LM
  // head's rows [the part's rows][hidden].
  const EmbeddingTableCuda& embedding() const { return embedding_; }
  const LinearWeightCuda& lm_head() const {
    return shared_lm_head_ != nullptr ? *shared_lm_head_ : weights_.head;
  }
  // The logits of the last pass, on the device: f32 [rows with logits][layout().logits_stride()].
  const float* device_logits() const { return logits_.as<float>(); }
  // For a row of the last pass and this shard's tokens: the summary, if one was asked for, and a
  // copy of the logits into their columns of the page-locked `row`. fetch_logits() waits for the
  // copy.
  const LogitsSummary& summary(int32_t pass_row) const {
    return summaries_.as<LogitsSummary>()[pass_row];
  }
  Status fetch_logits(int32_t pass_row, float* row);

  // Moves rows of the cache in all layers between physical slots, as move_kv_cuda() does.
  // Asynchronous.
  Status move_kv(std::span<const KvMoveCuda> moves);

  // For measurements. replay() submits the last pass again, `times` in a row. edit_graphs() drops
  // all graphs and captures new ones that `edit` changes (nullptr leaves them unchanged). With
  // `one_sum_a_layer`, `edit` removes one of a layer's two sums over the group, so the mailboxes
  // must alternate by layers; this needs an even number of layers.
  Status replay(int times);
  void edit_graphs(std::function<Status(cudaGraph_t)> edit, bool one_sum_a_layer = false);
  const Stream& stream() const { return stream_; }

 private:
  ShardCuda(const Checkpoint& checkpoint, const ShardCudaOptions& options, Stream stream)
      : config_(checkpoint.config()),
        device_(options.device),
        shares_gpu_(options.shares_gpu),
        layers_(options.layers),
        pinned_step_(options.step),
        hidden_in_(options.hidden_in),
        peers_(options.peers),
        ranks_with_head_(options.ranks_with_head),
        taps_(options.taps),
        layout_(shard_layout_cuda(config_, options.part,
                                  static_cast<int64_t>(checkpoint.draft_tokens().size()))),
        stream_(std::move(stream)) {
    if (options.maxima != nullptr) {
      maxima_ = *options.maxima;
      maxima_->fault = peers_->fault;  // one word ends all waiting
    }
    if (options.shares_gpu) edit_ = one_kernel_at_a_time;
  }
  // Loads the weights, except those that an EAGLE-3 head shares with its target.
  Status load_weights(const Checkpoint& checkpoint, const ShardCudaOptions& options,
                      const std::function<void(double)>& progress);
  Status allocate(const ShardCudaOptions& options);
  // Fills `draft_columns_` with the tokens of the rows of a reduced LM head.
  Status list_draft_columns(std::span<const int32_t> draft_tokens);
  Status run(const PassKeyCuda& key, const std::function<void()>& before_head = {});
  // Submit all kernels of a pass (model/cuda/shard_pass.cc).
  Status submit(const PassKeyCuda& key);
  Status submit_input(const PassKeyCuda& key);
  Status submit_layer(size_t layer_idx, const PassKeyCuda& key);
  Status submit_attention(size_t layer_idx, const PassKeyCuda& key);
  Status submit_selections(const PagedKvCuda& kv);
  // Keeps the contents of `hidden_` after this many of the model's layers, if the decoder taps
  // there.
  Status submit_taps(int32_t after_layers, const PassKeyCuda& key);
  Status submit_head(const PassKeyCuda& key);
  // Submits the copy of some rows of logits into their columns of `rows`.
  Status copy_logits(int64_t first, int64_t count, float* rows, int64_t stride);
  PagedKvCuda layer_kv(size_t layer_idx) const;
  // Return the two halves of a norm with this weight (f32 [hidden]): norm_of_hidden() returns the
  // output of the kernel that writes `hidden_`, for a next layer with inputs in this format; the
  // other function returns the input of that layer.
  NormOutputCuda norm_of_hidden(const DeviceBuffer& weight, ActivationFormat reader) const;
  NormInputCuda normed() const;
  LinearScratchCuda linear_scratch() const { return linear_scratch_.view(failed_.as<uint32_t>()); }

  ModelConfig config_;
  int32_t device_;
  bool shares_gpu_;
  const LayerRange layers_;
  const std::byte* pinned_step_;
  const std::byte* hidden_in_;
  const PeerMailboxes* peers_;
  std::optional<PeerMailboxes> maxima_;
  uint32_t ranks_with_head_;
  const TapStoreCuda* taps_;
  const ShardLayoutCuda layout_;
  Stream stream_;
  DecoderWeightsCuda weights_;
  // The stage's own embedding, or the target's in an EAGLE-3 head without one; hidden states in a
  // stage that does not embed.
  EmbeddingTableCuda embedding_;
  const LinearWeightCuda* shared_lm_head_ = nullptr;
  StepShapeCuda shape_;
  std::map<PassKeyCuda, Graph> graphs_;
  PassKeyCuda last_pass_;
  std::span<const PassSelectionCuda> selections_;  // selections of the submitted pass
  std::function<Status(cudaGraph_t)> edit_;
  bool one_sum_a_layer_ = false;

  int64_t layer_kv_bytes_ = 0;
  DeviceBuffer kv_;
  DeviceBuffer step_;
  // Activations of a pass, 16 bits each: [kMaxPassRows][..]. `scaled_` and `squares_` (f32;
  // rms_norm/cuda/rms_norm.h) give the norm after `hidden_`.
  DeviceBuffer hidden_, scaled_, squares_, qkv_out_, q_, attended_, mlp_;
  // `scaled_` and `squares_` of the rows with logits, if these are many.
  DeviceBuffer wanted_scaled_, wanted_squares_;
  DeviceBuffer partials_, arrivals_;
  LinearScratchBuffer linear_scratch_;
  HeadInputCuda head_input_;  // only in an EAGLE-3 head
  // Only for a reduced vocabulary: f32 [kMaxPassRows][layout_.head_stride()], and the LM head's row
  // of each token, int32 [num_tokens], -1 for none.
  DeviceBuffer draft_logits_, draft_columns_;
  DeviceBuffer logits_;     // f32 [kMaxPassRows][layout_.logits_stride()]
  PinnedBuffer summaries_;  // LogitsSummary [kMaxPassRows]
  PinnedBuffer failed_;     // a word that kernels set on failure
};

// Bytes for partial results of attention, beside weights, cache and the buffers that depend on a
// step's widths.
inline constexpr int64_t kPartialBytesCuda = int64_t{128} << 20;
// The largest size of a step block; block tables and ancestor lists of long contexts take most of
// it.
inline constexpr size_t kStepBytesCuda = size_t{8} << 20;

}  // namespace forerun::cuda
