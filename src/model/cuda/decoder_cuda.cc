#include "model/cuda/decoder_cuda.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "device/cuda/cuda_error.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "model/rope_frequencies.h"
#include "model/step_check.h"

namespace forerun::cuda {
namespace {

static_assert(kTilePositions == kKvBlockTokens);

// Partial results of attention, beyond which rows are worked on whole.
constexpr int64_t kPartialBytes = int64_t{128} << 20;
// Longest step block: block tables and ancestor lists of long contexts.
constexpr size_t kStepBytes = size_t{8} << 20;

// Rows that graphs are made for: few, so that they are soon all there.
int32_t bucket(int32_t rows) {
  for (const int32_t size : {1, 2, 4, 8, 16, 24, 32, 48, 64, 128}) {
    if (rows <= size) return size;
  }
  return kMostPassRows;
}

int64_t whole_tiles(int64_t outputs) {
  return (outputs + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
}

// Blocks of one launch wait for one another, so no two decoders may have passes under way on a GPU.
// Other processes on it are out of reach (one process a GPU, unless they share it in time slices).
std::mutex& gpu_in_use(int32_t device) {
  static std::array<std::mutex, 64> gpus;
  return gpus[static_cast<size_t>(device) % gpus.size()];
}

// What the kernels do not take, before anything is loaded.
Status check_kernels_take(const ModelConfig& config) {
  if (config.mlp_bias) {
    return {StatusCode::kUnsupported,
            "config.json: mlp_bias is set; the GPU's gated layer takes no bias"};
  }
  if (config.head_dim % 4 != 0 || config.head_dim > 256) {
    return {StatusCode::kUnsupported, "config.json: head_dim " + std::to_string(config.head_dim) +
                                          "; on a GPU multiples of 4 up to 256 are accepted"};
  }
  if (config.hidden_size % 32 != 0 || config.intermediate_size % 32 != 0) {
    return {StatusCode::kUnsupported,
            "config.json: hidden_size " + std::to_string(config.hidden_size) +
                ", intermediate_size " + std::to_string(config.intermediate_size) +
                "; on a GPU multiples of 32 are accepted"};
  }
  return {};
}

std::string megabytes(int64_t bytes) { return std::to_string((bytes + 999999) / 1000000) + " MB"; }

}  // namespace

PagedKvCuda DecoderCuda::layer_kv(size_t layer_idx) const {
  return {.data = kv_.data() + static_cast<int64_t>(layer_idx) * layer_kv_bytes_,
          .block_stride_bytes = kv_block_stride(),
          .num_kv_heads = config_.num_kv_heads,
          .head_dim = config_.head_dim};
}

Result<std::unique_ptr<DecoderCuda>> DecoderCuda::load(const Checkpoint& checkpoint,
                                                       const DecoderCudaOptions& options) {
  const ModelConfig& config = checkpoint.config();
  if (options.kv_blocks < 1 ||
      options.kv_blocks > std::numeric_limits<int32_t>::max() / kKvBlockTokens) {
    return Status(StatusCode::kInvalidArgument,
                  "KV cache of " + std::to_string(options.kv_blocks) + " blocks; 1 to " +
                      std::to_string(std::numeric_limits<int32_t>::max() / kKvBlockTokens) +
                      " are accepted");
  }
  FORERUN_RETURN_IF_ERROR(check_kernels_take(config).with_context(checkpoint.dir().string()));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(options.device), "choosing the GPU");
  const DecoderCudaMemory memory = estimate_decoder_cuda_memory(checkpoint);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  const int64_t kv_bytes = options.kv_blocks * memory.kv_block_bytes;
  if (memory.weight_bytes + memory.buffer_bytes + kv_bytes > static_cast<int64_t>(free_bytes)) {
    return Status(
        StatusCode::kResourceExhausted,
        checkpoint.dir().string() + " on cuda:" + std::to_string(options.device) + ": weights " +
            megabytes(memory.weight_bytes) + ", buffers " + megabytes(memory.buffer_bytes) +
            ", KV cache of " + std::to_string(options.kv_blocks * kKvBlockTokens) + " tokens " +
            megabytes(kv_bytes) + "; free are " + megabytes(static_cast<int64_t>(free_bytes)));
  }
  int32_t live_vocab =
      std::min(config.vocab_size, config.live_vocab_size.value_or(config.vocab_size));
  if (options.live_vocab) live_vocab = std::clamp(*options.live_vocab, 1, live_vocab);

  FORERUN_RETURN_IF_ERROR(prepare_linear_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_attention_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_rope_append_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_rms_norm_cuda());
  FORERUN_RETURN_IF_ERROR(prepare_embedding_cuda());
  FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
  std::unique_ptr<DecoderCuda> decoder(new DecoderCuda(config, options.device, std::move(stream)));
  FORERUN_ASSIGN_OR_RETURN(decoder->weights_,
                           load_decoder_weights_cuda(checkpoint, live_vocab, options.progress));
  FORERUN_ASSIGN_OR_RETURN(decoder->rope_,
                           RopeTable::create(rope_frequencies(config), config.max_position));
  FORERUN_RETURN_IF_ERROR(decoder->allocate(options.kv_blocks));
  return decoder;
}

Status DecoderCuda::allocate(int64_t kv_blocks) {
  kv_blocks_ = kv_blocks;
  qkv_ = qkv_layout(config_);
  layer_kv_bytes_ = layer_kv(0).layer_bytes();
  int multiprocessors = 0;
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device_),
      "asking for the number of multiprocessors");
  const int parts = query_parts(config_.num_heads, config_.num_kv_heads);
  const int64_t partial_bytes =
      partial_floats(config_.num_heads, config_.num_kv_heads, config_.head_dim) *
      static_cast<int64_t>(sizeof(float));
  shape_ = {.kv_parts = config_.num_kv_heads * parts,
            .head_dim = config_.head_dim,
            .multiprocessors = multiprocessors,
            .most_partials = static_cast<int32_t>(kPartialBytes / partial_bytes),
            .may_fuse = can_fuse_rope(config_.head_dim, config_.qk_norm)};

  const auto rows_of = [](int64_t width) {
    return static_cast<size_t>(kMostPassRows * width) * sizeof(__nv_bfloat16);
  };
  const int64_t padded_dim = padded_head_dim_cuda(config_.head_dim);
  const auto arrivals = static_cast<size_t>(2 * kMostPassRows * shape_.kv_parts) * sizeof(uint32_t);
  const struct {
    DeviceBuffer* buffer;
    size_t bytes;
    const char* purpose;
    bool clear;
  } buffers[] = {
      {&kv_, static_cast<size_t>(kv_blocks * kv_block_stride()), "the KV cache", false},
      {&step_, kStepBytes, "the data of a step", true},
      {&hidden_, rows_of(config_.hidden_size), "activations", true},
      {&normalized_, rows_of(config_.hidden_size), "activations", true},
      {&qkv_out_, rows_of(qkv_.width), "activations", true},
      {&q_, rows_of(config_.num_heads * padded_dim), "activations", true},
      {&attended_, rows_of(int64_t{config_.num_heads} * config_.head_dim), "activations", true},
      {&mlp_, rows_of(config_.intermediate_size), "activations", true},
      {&partials_, static_cast<size_t>(kPartialBytes), "partial results of attention", false},
      {&arrivals_, arrivals, "flags of attention", true},
      {&failed_, sizeof(uint32_t), "flags of attention", true},
      {&device_logits_,
       static_cast<size_t>(kMostPassRows * whole_tiles(weights_.head.plan().out_features)) *
           sizeof(float),
       "logits", true},
  };
  for (const auto& [buffer, bytes, purpose, clear] : buffers) {
    FORERUN_ASSIGN_OR_RETURN(*buffer, DeviceBuffer::allocate(bytes, purpose));
    if (!clear) continue;
    FORERUN_CUDA_RETURN_IF_ERROR(cudaMemset(buffer->data(), 0, bytes), "clearing buffers");
  }
  // The stream of the passes does not wait for the default one.
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "clearing buffers");
  FORERUN_ASSIGN_OR_RETURN(pinned_step_, PinnedBuffer::allocate(kStepBytes, "the data of a step"));
  return reserve_logits(64);
}

Status DecoderCuda::reserve_logits(int64_t rows) {
  if (rows <= logits_capacity_) return {};
  const int64_t capacity = std::max(rows, 2 * logits_capacity_);
  const auto bytes =
      static_cast<size_t>(capacity * whole_tiles(weights_.head.plan().out_features)) *
      sizeof(float);
  FORERUN_ASSIGN_OR_RETURN(PinnedBuffer larger,
                           PinnedBuffer::allocate(bytes, "logits on the host"));
  logits_ = std::move(larger);
  logits_capacity_ = capacity;
  return {};
}

Status DecoderCuda::submit_layer(size_t layer_idx, const GraphKey& key) {
  const int32_t rows = key.rows;
  const LayerWeightsCuda& layer = weights_.layers[layer_idx];
  const int64_t hidden = config_.hidden_size;
  const int64_t q_width = int64_t{config_.num_heads} * config_.head_dim;
  const auto* const step = reinterpret_cast<const AttentionStepCuda*>(step_.data());
  const auto bf16 = [](const DeviceBuffer& buffer) { return buffer.as<__nv_bfloat16>(); };
  const cudaStream_t stream = stream_.get();

  const auto normalize = [&](const DeviceBuffer& weight) {
    return rms_norm_cuda({.input = bf16(hidden_),
                          .weight = weight.as<float>(),
                          .output = bf16(normalized_),
                          .dim = hidden,
                          .rows = rows,
                          .eps = config_.rms_norm_eps},
                         stream);
  };
  // x += W * input
  const auto add_linear = [&](const LinearWeightCuda& weight, const DeviceBuffer& input,
                              int64_t width, const DeviceBuffer& bias) {
    return linear_cuda(weight,
                       {.input = bf16(input),
                        .input_stride = width,
                        .output = bf16(hidden_),
                        .output_stride = hidden,
                        .rows = rows,
                        .bias = bias.data() == nullptr ? nullptr : bf16(bias),
                        .residual = bf16(hidden_)},
                       stream);
  };

  FORERUN_RETURN_IF_ERROR(normalize(layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      linear_cuda(layer.qkv,
                  {.input = bf16(normalized_),
                   .input_stride = hidden,
                   .output = bf16(qkv_out_),
                   .output_stride = qkv_.width,
                   .rows = rows,
                   .bias = layer.qkv_bias.data() == nullptr ? nullptr : bf16(layer.qkv_bias)},
                  stream));
  const PagedKvCuda kv = layer_kv(layer_idx);
  if (key.mode != AttentionMode::kFused) {
    FORERUN_RETURN_IF_ERROR(rope_append_cuda({.step = step,
                                              .qkv = bf16(qkv_out_),
                                              .qkv_stride = qkv_.width,
                                              .k_offset = qkv_.k_offset,
                                              .v_offset = qkv_.v_offset,
                                              .q = bf16(q_),
                                              .num_heads = config_.num_heads,
                                              .rows = rows,
                                              .kv = kv,
                                              .q_norm = layer.q_norm.as<float>(),
                                              .k_norm = layer.k_norm.as<float>(),
                                              .eps = config_.rms_norm_eps},
                                             stream));
  }
  const int64_t flags = int64_t{kMostPassRows} * shape_.kv_parts;
  FORERUN_RETURN_IF_ERROR(attention_cuda(
      {.step = step,
       .q = bf16(q_),
       .qkv = bf16(qkv_out_),
       .qkv_stride = qkv_.width,
       .k_offset = qkv_.k_offset,
       .v_offset = qkv_.v_offset,
       .attended = bf16(attended_),
       .attended_stride = q_width,
       .num_heads = config_.num_heads,
       .kv = kv,
       .window = config_.sliding_window[layer_idx],
       .partials = partials_.as<float>(),
       .arrivals = arrivals_.as<uint32_t>() + static_cast<int64_t>(layer_idx % 2) * flags,
       .to_clear = arrivals_.as<uint32_t>() + static_cast<int64_t>((layer_idx + 1) % 2) * flags,
       .failed = failed_.as<uint32_t>(),
       .early = layer_idx > 0,
       .mode = key.mode,
       .long_contexts = key.long_contexts},
      stream));
  FORERUN_RETURN_IF_ERROR(add_linear(layer.o, attended_, q_width, layer.o_bias));
  FORERUN_RETURN_IF_ERROR(normalize(layer.post_attention_norm));
  FORERUN_RETURN_IF_ERROR(linear_cuda(layer.gate_up,
                                      {.input = bf16(normalized_),
                                       .input_stride = hidden,
                                       .output = bf16(mlp_),
                                       .output_stride = config_.intermediate_size,
                                       .rows = rows,
                                       .gated = true},
                                      stream));
  return add_linear(layer.down, mlp_, config_.intermediate_size, layer.down_bias);
}

Status DecoderCuda::submit(const GraphKey& key) {
  const int32_t rows = key.rows;
  const int32_t wanted = key.wanted;
  FORERUN_RETURN_IF_ERROR(
      embedding_cuda({.source = pinned_step_.data(),
                      .target = step_.data(),
                      .bytes_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, bytes)),
                      .tokens_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, tokens)),
                      .table = weights_.embedding.as<__nv_bfloat16>(),
                      .table_tokens = config_.vocab_size,
                      .dim = config_.hidden_size,
                      .output = hidden_.as<__nv_bfloat16>(),
                      .rows = rows,
                      .to_clear = arrivals_.as<uint32_t>(),
                      .clear_count = static_cast<int32_t>(arrivals_.bytes() / sizeof(uint32_t))},
                     stream_.get()));
  for (size_t layer_idx = 0; layer_idx < weights_.layers.size(); ++layer_idx) {
    FORERUN_RETURN_IF_ERROR(submit_layer(layer_idx, key));
  }
  if (wanted == 0) return {};
  FORERUN_RETURN_IF_ERROR(rms_norm_cuda({.input = hidden_.as<__nv_bfloat16>(),
                                         .row_index = reinterpret_cast<const int32_t*>(
                                             step_.data() + offsetof(StepHeaderCuda, wanted)),
                                         .weight = weights_.final_norm.as<float>(),
                                         .output = normalized_.as<__nv_bfloat16>(),
                                         .dim = config_.hidden_size,
                                         .rows = wanted,
                                         .eps = config_.rms_norm_eps},
                                        stream_.get()));
  return linear_cuda(weights_.head,
                     {.input = normalized_.as<__nv_bfloat16>(),
                      .input_stride = config_.hidden_size,
                      .output_f32 = device_logits_.as<float>(),
                      .output_stride = whole_tiles(weights_.head.plan().out_features),
                      .rows = wanted},
                     stream_.get());
}

Status DecoderCuda::run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row) {
  block_.build(step, begin, end, shape_, rope_);
  if (block_.bytes().size() > pinned_step_.bytes()) {
    return {StatusCode::kResourceExhausted,
            "a step of " + std::to_string(end - begin) + " rows needs " +
                megabytes(static_cast<int64_t>(block_.bytes().size())) +
                " of lists, there is room for " +
                megabytes(static_cast<int64_t>(pinned_step_.bytes()))};
  }
  std::memcpy(pinned_step_.data(), block_.bytes().data(), block_.bytes().size());
  const int32_t wanted = block_.num_wanted();
  const GraphKey key{.rows = bucket(block_.num_rows()),
                     .wanted = wanted == 0 ? 0 : bucket(wanted),
                     .mode = block_.mode(),
                     .long_contexts = block_.long_contexts()};
  auto graph = graphs_.find(key);
  if (graph == graphs_.end()) {
    FORERUN_ASSIGN_OR_RETURN(Graph captured, Graph::capture(stream_, [&] { return submit(key); }));
    graph = graphs_.emplace(key, std::move(captured)).first;
  }
  last_graph_ = &graph->second;
  FORERUN_RETURN_IF_ERROR(graph->second.launch(stream_));
  if (wanted > 0) {
    const int64_t width = whole_tiles(weights_.head.plan().out_features);
    FORERUN_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(logits_.as<float>() + first_logits_row * width, device_logits_.data(),
                        static_cast<size_t>(wanted * width) * sizeof(float), cudaMemcpyDeviceToHost,
                        stream_.get()),
        "copying logits");
  }
  FORERUN_RETURN_IF_ERROR(stream_.synchronize());
  return {};
}

Status DecoderCuda::forward(const Step& step) {
  FORERUN_RETURN_IF_ERROR(check_step(step, config_, kv_blocks_));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(device_), "choosing the GPU");
  logits_rows_ = std::count_if(step.rows.begin(), step.rows.end(),
                               [](const StepRow& row) { return row.wants_logits; });
  FORERUN_RETURN_IF_ERROR(reserve_logits(logits_rows_));
  const std::lock_guard in_use(gpu_in_use(device_));
  int64_t first_logits_row = 0;
  for (size_t begin = 0; begin < step.rows.size(); begin += kMostPassRows) {
    const size_t end = std::min(step.rows.size(), begin + kMostPassRows);
    const Status ran = run_pass(step, begin, end, first_logits_row);
    if (!ran.ok()) {
      (void)stream_.synchronize();  // the step's data may still be read; `ran` says what went wrong
      return ran;
    }
    first_logits_row += block_.num_wanted();
  }
  uint32_t failed = 0;
  FORERUN_RETURN_IF_ERROR(failed_.download(std::as_writable_bytes(std::span(&failed, 1))));
  if (failed != 0) {
    failed = 0;
    FORERUN_RETURN_IF_ERROR(failed_.upload(std::as_bytes(std::span(&failed, 1))));
    return {StatusCode::kInternal, "cuda:" + std::to_string(device_) +
                                       ": blocks of attention waited in vain for one another"};
  }
  return {};
}

LogitsPart DecoderCuda::logits(int32_t /*rank*/) const {
  const int64_t tokens = weights_.head.plan().out_features;
  return {.values = {logits_.as<float>(), {logits_rows_, tokens}, whole_tiles(tokens)}};
}

Status DecoderCuda::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  FORERUN_RETURN_IF_ERROR(check_kv_moves(moves));
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(device_), "choosing the GPU");
  std::vector<KvMoveCuda> physical;
  const auto slot = [&](int32_t logical) {
    return sequence.block_table[logical / kKvBlockTokens] * kKvBlockTokens +
           logical % kKvBlockTokens;
  };
  for (const KvMove& move : moves) {
    if (move.from_slot == move.to_slot) continue;
    physical.push_back({slot(move.from_slot), slot(move.to_slot)});
  }
  return move_kv_cuda(layer_kv(0), config_.num_layers, layer_kv_bytes_, physical, stream_.get());
}

Status DecoderCuda::replay(int times) {
  if (last_graph_ == nullptr) return {StatusCode::kInvalidArgument, "no pass has run yet"};
  for (int i = 0; i < times; ++i) FORERUN_RETURN_IF_ERROR(last_graph_->launch(stream_));
  return {};
}

DecoderCudaMemory estimate_decoder_cuda_memory(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  DecoderCudaMemory memory;
  // Layers that the int4 kernels do not take become bf16.
  const bool widens = config.quantization.kind == QuantizationConfig::Kind::kAwq &&
                      config.quantization.group_size != kInt4Group;
  for (const RawTensor& tensor : checkpoint.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    const bool nibbles = tensor.dtype == DType::kI32 && tensor.name.ends_with(".qweight");
    memory.weight_bytes += tensor.dtype == DType::kF32 ? bytes / 2
                           : widens && nibbles         ? 4 * bytes
                                                       : bytes;
  }
  if (config.tied_embeddings) {
    memory.weight_bytes += int64_t{config.vocab_size} * config.hidden_size * 2;
  }
  const QkvLayout qkv = qkv_layout(config);
  const int64_t widths = 2 * int64_t{config.hidden_size} + 3 * int64_t{qkv.width} +
                         config.intermediate_size + 2 * int64_t{config.vocab_size};
  memory.buffer_bytes = kPartialBytes + static_cast<int64_t>(kStepBytes) +
                        kMostPassRows * widths * 2 + (int64_t{512} << 20);
  const PagedKvCuda layer{.num_kv_heads = config.num_kv_heads, .head_dim = config.head_dim};
  memory.kv_block_bytes = config.num_layers * layer.layer_bytes();
  return memory;
}

Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options) {
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  return std::unique_ptr<Decoder>(std::move(decoder));
}

}  // namespace forerun::cuda
