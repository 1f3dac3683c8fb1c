#include "model/cuda/shard.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/features/cuda/keep_taps.h"
#include "kernels/features/cuda/spread_logits.h"
#include "kernels/kv_select/cuda/kv_select.h"
#include "kernels/linear/cuda/gather.h"
#include "kernels/logits_summary/cuda/logits_summary.h"
#include "model/cuda/fused_linear.h"

namespace forerun::cuda {

PagedKvCuda ShardCuda::layer_kv(size_t layer_idx) const {
  return {.data = kv_.data() + static_cast<int64_t>(layer_idx) * layer_kv_bytes_,
          .block_stride_bytes = kv_block_bytes(),
          .num_kv_heads = layout_.num_kv_heads,
          .head_dim = config_.head_dim};
}

Result<std::unique_ptr<ShardCuda>> ShardCuda::load(const Checkpoint& checkpoint,
                                                   const ShardCudaOptions& options,
                                                   const std::function<void(double)>& progress) {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(options.device), "choosing the GPU");
  FORERUN_RETURN_IF_ERROR(prepare_linear_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_linear_gather());
  FORERUN_RETURN_IF_ERROR(prepare_attention_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_rope_append_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_kv_select_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_embedding_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_logits_summary_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_keep_taps_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_head_input_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_spread_logits_cuda());
  FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
  std::unique_ptr<ShardCuda> shard(new ShardCuda(checkpoint, options, std::move(stream)));
  FORERUN_RETURN_IF_ERROR(shard->load_weights(checkpoint, options, progress));
  FORERUN_RETURN_IF_ERROR(shard->allocate(options));
  if (shard->layout_.spreads_logits()) {
    FORERUN_RETURN_IF_ERROR(shard->list_draft_columns(checkpoint.draft_tokens()));
  }
  return shard;
}

Status ShardCuda::load_weights(const Checkpoint& checkpoint, const ShardCudaOptions& options,
                               const std::function<void(double)>& progress) {
  LmHeadSource source = find_lm_head(checkpoint, options.target);
  const Checkpoint* target_embedding = nullptr;
  if (config_.eagle3) {
    // The last of several stages has no embedding.
    const bool has_none = !has_own_embedding(config_) && !options.target_shard->layers_.embeds;
    if (has_none) target_embedding = options.target;
    const FusedLinear head = head_linear(config_, layout_, options.weights);
    const LinearWeightCuda& shared = options.target_shard->lm_head();
    // Only a whole LM head can be shared, not a part of a group's.
    if (may_share_lm_head(config_, head, layout_) && shared.plan().out_features == head.outputs) {
      shared_lm_head_ = &shared;
      source = {};
    }
  }
  FORERUN_ASSIGN_OR_RETURN(weights_,
                           load_decoder_weights_cuda(checkpoint, layout_,
                                                     {.layers = layers_,
                                                      .weights = options.weights,
                                                      .lm_head = source,
                                                      .target_embedding = target_embedding},
                                                     progress));
  if (!layers_.embeds) {
    embedding_ = {
        .rows = hidden_in_, .row_bytes = int64_t{config_.hidden_size} * 2, .tokens = kMaxPassRows};
  } else {
    const bool is_shared = !has_own_embedding(config_) && target_embedding == nullptr;
    embedding_ = is_shared ? options.target_shard->embedding() : weights_.embedding_table;
  }
  return {};
}

Status ShardCuda::list_draft_columns(std::span<const int32_t> draft_tokens) {
  std::vector<int32_t> columns(static_cast<size_t>(layout_.num_tokens), -1);
  for (size_t row = 0; row < draft_tokens.size(); ++row) {
    const auto token = static_cast<size_t>(draft_tokens[row]);
    if (token < columns.size()) columns[token] = static_cast<int32_t>(row);
  }
  FORERUN_ASSIGN_OR_RETURN(draft_columns_,
                           DeviceBuffer::allocate(columns.size() * sizeof(int32_t),
                                                  "the tokens of a reduced vocabulary"));
  return draft_columns_.upload(std::as_bytes(std::span(columns)));
}

Status ShardCuda::allocate(const ShardCudaOptions& options) {
  layer_kv_bytes_ = layer_kv(0).layer_bytes();
  int multiprocessors = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device_),
      "asking for the number of multiprocessors");
  // A part without heads has the sizes of one KV head, so that no buffer is empty.
  const int32_t kv_heads = std::max(layout_.num_kv_heads, 1);
  const int32_t heads = kv_heads * (config_.num_heads / config_.num_kv_heads);
  const int64_t partial_bytes =
      partial_floats(heads, kv_heads, config_.head_dim) * static_cast<int64_t>(sizeof(float));
  shape_ = {.attention = {.kv_parts = kv_heads * query_parts(heads, kv_heads),
                          .row_columns = query_columns(heads, kv_heads),
                          .multiprocessors = multiprocessors,
                          .max_partials = static_cast<int32_t>(kPartialBytesCuda / partial_bytes),
                          .may_fuse = can_fuse_rope(config_.head_dim, config_.qk_norm),
                          // The tiled kernels need an SM each.
                          .may_tile = config_.head_dim <= 128 && !shares_gpu_,
                          .max_prefill_cluster_blocks = largest_prefill_cluster(config_.head_dim)},
            .head_dim = config_.head_dim,
            .embeds = layers_.embeds,
            .heads = layers_.heads};

  const auto rows_of = [](int64_t width) {
    return static_cast<size_t>(kMaxPassRows * linear_input_stride(width, 1)) *
           sizeof(__nv_bfloat16);
  };
  const size_t squares_bytes =
      static_cast<size_t>(kMaxPassRows * config_.hidden_size / kNormGroup) * sizeof(float);
  const int64_t padded_dim = padded_head_dim_cuda(config_.head_dim);
  const auto arrivals =
      static_cast<size_t>(2 * kMaxPassRows * shape_.attention.kv_parts) * sizeof(uint32_t);
  const struct {
    DeviceBuffer* buffer;
    size_t bytes;
    const char* purpose;
    bool clear;
  } buffers[] = {
      {&kv_, static_cast<size_t>(options.kv_blocks * kv_block_bytes()), "the KV cache", false},
      {&step_, kStepBytesCuda, "the data of a step", true},
      {&hidden_, rows_of(config_.hidden_size), "activations", true},
      {&scaled_, rows_of(config_.hidden_size), "activations", true},
      {&squares_, squares_bytes, "sums of squares of activations", true},
      {&wanted_scaled_, rows_of(config_.hidden_size), "activations", true},
      {&wanted_squares_, squares_bytes, "sums of squares of activations", true},
      {&qkv_out_, rows_of(layout_.qkv_width), "activations", true},
      {&q_, rows_of(layout_.num_heads * padded_dim), "activations", true},
      {&attended_, rows_of(layout_.attended_width), "activations", true},
      {&mlp_, rows_of(layout_.mlp_in.total), "activations", true},
      {&partials_, static_cast<size_t>(kPartialBytesCuda), "partial results of attention", false},
      {&arrivals_, arrivals, "flags of attention", true},
      {&logits_, static_cast<size_t>(kMaxPassRows * layout_.logits_stride()) * sizeof(float),
       "logits", true},
      {&draft_logits_,
       layout_.spreads_logits()
           ? static_cast<size_t>(kMaxPassRows * layout_.head_stride()) * sizeof(float)
           : 0,
       "logits", true},
  };
  for (const auto& [buffer, bytes, purpose, clear] : buffers) {
    FORERUN_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(bytes, purpose));
    if (!clear) continue;
    FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer->data(), 0, bytes), "clearing buffers");
  }
  if (config_.eagle3) {
    FORERUN_ASSIGN_OR_RETURN(head_input_,
                             HeadInputCuda::create(config_, options.target_taps, options.taps));
  }
  // The stream of the passes does not wait for the default one.
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "clearing buffers");
  FORERUN_ASSIGN_OR_RETURN(summaries_, PinnedBuffer::allocate(kMaxPassRows * sizeof(LogitsSummary),
                                                              "summaries of logits"));
  FORERUN_ASSIGN_OR_RETURN(linear_scratch_, LinearScratchBuffer::allocate());
  FORERUN_ASSIGN_OR_RETURN(failed_, PinnedBuffer::allocate(sizeof(uint32_t), "a failure's flag"));
  *failed_.as<uint32_t>() = 0;
  return {};
}

Status ShardCuda::use() const {
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(device_), "choosing the GPU");
  return {};
}

Status ShardCuda::prepare(const PassKeyCuda& key) {
  if (graphs_.contains(key)) return {};
  FORERUN_ASSIGN_OR_RETURN(Graph captured, Graph::capture(
                                               stream_, [&] { return submit(key); }, edit_));
  graphs_.emplace(key, std::move(captured));
  return {};
}

Status ShardCuda::run(const PassKeyCuda& key, const std::function<void()>& before_head) {
  PassKeyCuda layers = key;
  layers.wanted = 0;
  const auto layers_alone = selections_.empty() ? graphs_.find(layers) : graphs_.end();
  if (before_head && layers_alone == graphs_.end()) before_head();
  if (!selections_.empty()) return submit(key);
  const auto graph = graphs_.find(key);
  const bool in_two = before_head && layers_alone != graphs_.end();
  if (graph != graphs_.end() && !in_two) return graph->second.launch(stream_);
  if (layers_alone == graphs_.end()) return submit(key);
  FORERUN_RETURN_IF_ERROR(layers_alone->second.launch(stream_));
  if (before_head) before_head();
  return layout_.has_head() ? submit_head(key) : Status();
}

Status ShardCuda::launch(const PassKeyCuda& key, const HostLogits& logits, const HostHidden& hidden,
                         std::span<const PassSelectionCuda> selections,
                         const std::function<void()>& before_head) {
  last_pass_ = key;
  selections_ = selections;
  const Status submitted = run(key, before_head);
  selections_ = {};  // passes by graph have no selections
  FORERUN_RETURN_IF_ERROR(submitted);
  if (hidden.rows != nullptr) {
    const auto width = static_cast<size_t>(config_.hidden_size) * sizeof(__nv_bfloat16);
    const auto stride = static_cast<size_t>(linear_input_stride(config_.hidden_size, key.rows)) *
                        sizeof(__nv_bfloat16);
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaMemcpy2DAsync(hidden.rows, width, hidden_.data(), stride, width,
                          static_cast<size_t>(hidden.count), cudaMemcpyDeviceToHost, stream_.get()),
        "copying hidden rows");
  }
  if (!layout_.has_head()) return {};
  const auto whole = [](const RowQuery& query) { return query.kinds == RowQuery::kLogits; };
  const auto begin = logits.queries.begin();
  const auto end = logits.queries.end();
  for (auto next = begin; next != end;) {
    // Copies adjacent rows at once.
    const auto first = std::find_if(next, end, whole);
    next = std::find_if_not(first, end, whole);
    if (first == next) continue;
    FORERUN_RETURN_IF_ERROR(copy_logits(
        first - begin, next - first, logits.rows + (first - begin) * logits.stride, logits.stride));
  }
  return {};
}

Status ShardCuda::copy_logits(int64_t first, int64_t count, float* rows, int64_t stride) {
  const auto bytes = [](int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); };
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaMemcpy2DAsync(rows + layout_.part.vocab.begin, bytes(stride),
                        logits_.as<float>() + first * layout_.logits_stride(),
                        bytes(layout_.logits_stride()), bytes(layout_.num_tokens),
                        static_cast<size_t>(count), cudaMemcpyDeviceToHost, stream_.get()),
      "copying logits");
  return {};
}

Status ShardCuda::fetch_logits(int32_t pass_row, float* row) {
  FORERUN_RETURN_IF_ERROR(copy_logits(pass_row, 1, row, layout_.logits_stride()));
  return stream_.synchronize();
}

Status ShardCuda::finish() {
  FORERUN_RETURN_IF_ERROR(stream_.synchronize());
  auto* const failed = failed_.as<volatile uint32_t>();
  if (*failed == 0) return {};
  *failed = 0;
  FORERUN_RETURN_IF_ERROR(linear_scratch_.clear_counters());
  return {StatusCode::kInternal, "cuda:" + std::to_string(device_) +
                                     ": blocks of a kernel gave up waiting for one another"};
}

Status ShardCuda::move_kv(std::span<const KvMoveCuda> moves) {
  if (!layout_.has_heads()) return {};
  return move_kv_cuda(layer_kv(0), layers_.size(), layer_kv_bytes_, moves, stream_.get());
}

void ShardCuda::edit_graphs(std::function<Status(cudaGraph_t)> edit, bool one_sum_a_layer) {
  edit_ = std::move(edit);
  one_sum_a_layer_ = one_sum_a_layer;
  last_pass_ = {};
  graphs_.clear();
}

Status ShardCuda::replay(int times) {
  if (last_pass_.rows == 0) return {StatusCode::kInvalidArgument, "no pass has run yet"};
  for (int i = 0; i < times; ++i) FORERUN_RETURN_IF_ERROR(run(last_pass_));
  return {};
}

}  // namespace forerun::cuda
