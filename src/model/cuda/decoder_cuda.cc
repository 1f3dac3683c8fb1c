#include "model/cuda/decoder_cuda.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "model/rope_frequencies.h"
#include "model/step_check.h"

namespace forerun::cuda {
namespace {

static_assert(kTilePositions == kKvBlockTokens);

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

  std::unique_ptr<DecoderCuda> decoder(new DecoderCuda(config, options));
  FORERUN_ASSIGN_OR_RETURN(decoder->rope_,
                           RopeTable::create(rope_frequencies(config), config.max_position));
  FORERUN_ASSIGN_OR_RETURN(decoder->pinned_step_,
                           PinnedBuffer::allocate(kStepBytesCuda, "the data of a step"));
  const ShardCudaOptions shard{.device = options.device,
                               .kv_blocks = options.kv_blocks,
                               .live_vocab = live_vocab,
                               .step = decoder->pinned_step_.data()};
  FORERUN_ASSIGN_OR_RETURN(decoder->shard_, ShardCuda::load(checkpoint, shard, options.progress));
  FORERUN_RETURN_IF_ERROR(decoder->reserve_logits(64));
  return decoder;
}

Status DecoderCuda::reserve_logits(int64_t rows) {
  if (rows <= logits_capacity_) return {};
  const int64_t capacity = std::max(rows, 2 * logits_capacity_);
  const auto bytes = static_cast<size_t>(capacity * shard_->logits_stride()) * sizeof(float);
  FORERUN_ASSIGN_OR_RETURN(PinnedBuffer larger,
                           PinnedBuffer::allocate(bytes, "logits on the host"));
  logits_ = std::move(larger);
  logits_capacity_ = capacity;
  return {};
}

Status DecoderCuda::run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row) {
  block_.build(step, begin, end, shard_->shape(), rope_);
  if (block_.bytes().size() > pinned_step_.bytes()) {
    return {StatusCode::kResourceExhausted,
            "a step of " + std::to_string(end - begin) + " rows needs " +
                megabytes(static_cast<int64_t>(block_.bytes().size())) +
                " of lists, there is room for " +
                megabytes(static_cast<int64_t>(pinned_step_.bytes()))};
  }
  std::memcpy(pinned_step_.data(), block_.bytes().data(), block_.bytes().size());
  const PassKeyCuda key{.rows = pass_bucket(block_.num_rows()),
                        .wanted = pass_bucket(block_.num_wanted()),
                        .mode = block_.mode(),
                        .long_contexts = block_.long_contexts()};
  FORERUN_RETURN_IF_ERROR(shard_->prepare(key));
  const Status launched = shard_->launch(
      key, logits_.as<float>() + first_logits_row * shard_->logits_stride(), block_.num_wanted());
  const Status finished = shard_->finish();  // even so: the step's data may still be read
  return launched.ok() ? finished : launched;
}

Status DecoderCuda::forward(const Step& step) {
  FORERUN_RETURN_IF_ERROR(check_step(step, config_, kv_blocks_));
  FORERUN_RETURN_IF_ERROR(shard_->use());
  logits_rows_ = std::count_if(step.rows.begin(), step.rows.end(),
                               [](const StepRow& row) { return row.wants_logits; });
  FORERUN_RETURN_IF_ERROR(reserve_logits(logits_rows_));
  const std::lock_guard in_use(gpu_in_use(device_));
  int64_t first_logits_row = 0;
  for (size_t begin = 0; begin < step.rows.size(); begin += kMostPassRows) {
    const size_t end = std::min(step.rows.size(), begin + kMostPassRows);
    FORERUN_RETURN_IF_ERROR(run_pass(step, begin, end, first_logits_row));
    first_logits_row += block_.num_wanted();
  }
  return {};
}

LogitsPart DecoderCuda::logits(int32_t /*rank*/) const {
  return {.values = {
              logits_.as<float>(), {logits_rows_, shard_->num_tokens()}, shard_->logits_stride()}};
}

Status DecoderCuda::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  FORERUN_RETURN_IF_ERROR(check_kv_moves(moves));
  std::vector<KvMoveCuda> physical;
  const auto slot = [&](int32_t logical) {
    return sequence.block_table[logical / kKvBlockTokens] * kKvBlockTokens +
           logical % kKvBlockTokens;
  };
  for (const KvMove& move : moves) {
    if (move.from_slot == move.to_slot) continue;
    physical.push_back({slot(move.from_slot), slot(move.to_slot)});
  }
  FORERUN_RETURN_IF_ERROR(shard_->use());
  return shard_->move_kv(physical);
}

Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options) {
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  return std::unique_ptr<Decoder>(std::move(decoder));
}

}  // namespace forerun::cuda
