#include "model/cuda/decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/logits_summary/cuda/logits_summary.h"
#include "model/cuda/graph_passes.h"
#include "model/head_ports.h"
#include "model/rope_frequencies.h"
#include "model/step_check.h"

namespace forerun::cuda {
namespace {

static_assert(kTilePositions == kKvBlockTokens);

// Rows per pass if two parts share a GPU: the most that linear blocks of half an SM take
// (plan_launch), which leave the other half to the other part.
constexpr int32_t kSharedPassRows = 8;

// With this many masks or more, writing them takes longer than a separate launch of the head.
constexpr int32_t kFewestLateMasks = 16;

// A lock on GPUs for passes. Blocks of one launch wait for one another, and kernels of one GPU for
// those of others, so no two decoders may have passes in flight on a GPU. It does not see other
// processes (use one process per GPU, unless they share it in time slices).
class GpusInUse {
 public:
  explicit GpusInUse(std::vector<int32_t> devices) {
    std::sort(devices.begin(), devices.end());  // the same order in every caller
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    for (const int32_t device : devices) {
      locks_.emplace_back(gpus()[static_cast<size_t>(device) % gpus().size()]);
    }
  }
  // Locks all GPUs, for allocating and freeing memory and building graphs (peer_group.h), because
  // the driver may then wait until every GPU is idle. A group with kernels that wait for one
  // another never becomes idle while the driver keeps one of its threads from launching.
  static GpusInUse everywhere() {
    std::vector<int32_t> devices(gpus().size());
    std::iota(devices.begin(), devices.end(), 0);
    return GpusInUse(std::move(devices));
  }

 private:
  static std::array<std::mutex, 64>& gpus() {
    static std::array<std::mutex, 64> gpus;
    return gpus;
  }
  std::vector<std::unique_lock<std::mutex>> locks_;
};

// Runs `work` and turns an exception into a Status, since threads of a team may not throw.
Status guarded(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kResourceExhausted, "out of memory"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, error.what()};
  }
}

// Refuses shapes that the kernels do not support, before anything is loaded.
Status check_kernels_take(const ModelConfig& config, const ShardPlan& plan) {
  if (config.mlp_bias) {
    return {StatusCode::kUnsupported,
            "config.json: mlp_bias is set; the GPU's gated layer takes no bias"};
  }
  if (config.head_dim % 4 != 0 || config.head_dim > 256) {
    return {StatusCode::kUnsupported, "config.json: head_dim " + std::to_string(config.head_dim) +
                                          "; accepted on a GPU: multiples of 4 up to 256"};
  }
  if (config.hidden_size % 32 != 0 || config.intermediate_size % 32 != 0) {
    return {StatusCode::kUnsupported,
            "config.json: hidden_size " + std::to_string(config.hidden_size) +
                ", intermediate_size " + std::to_string(config.intermediate_size) +
                "; accepted on a GPU: multiples of 32"};
  }
  if (plan.padded_vocab > kMaxLogitsSummaryTokens) {
    return {StatusCode::kUnsupported,
            "config.json: vocab_size " + std::to_string(config.vocab_size) + ", " +
                std::to_string(plan.padded_vocab) + " of it on one GPU; accepted: at most " +
                std::to_string(kMaxLogitsSummaryTokens)};
  }
  return {};
}

// The edits of Steps without edits of logits.
class NoEdits : public StepEdits {
 public:
  const RowEdits& row(int32_t /*edits*/) const override { return none_; }
  int32_t num_masks() const override { return 0; }
  void write_mask(int32_t /*mask*/, std::span<uint32_t> /*words*/) const override {}

 private:
  RowEdits none_;
};

// If the decoder `has` an optional part of a pass, adds each pass with it.
void add_variants(bool has, bool PassKeyCuda::*does, std::vector<PassKeyCuda>& passes) {
  const size_t count = has ? passes.size() : 0;
  for (size_t i = 0; i < count; ++i) {
    passes.push_back(passes[i]);
    passes.back().*does = true;
  }
}

bool wants_logits(const StepRow& row) { return row.wants_logits; }

}  // namespace

DecoderCuda::DecoderCuda(const ModelConfig& config, const DecoderCudaOptions& options)
    : config_(config),
      layers_(options.layers.value_or(LayerRange::all(config))),
      devices_(options.devices),
      target_(dynamic_cast<const DecoderCuda*>(options.target_decoder)),
      kv_blocks_(options.kv_blocks) {}

Result<std::unique_ptr<DecoderCuda>> DecoderCuda::load(const Checkpoint& checkpoint,
                                                       const DecoderCudaOptions& options) {
  const ModelConfig& config = checkpoint.config();
  if (options.kv_blocks < 1 ||
      options.kv_blocks > std::numeric_limits<int32_t>::max() / kKvBlockTokens) {
    return Status(StatusCode::kInvalidArgument,
                  "KV cache of " + std::to_string(options.kv_blocks) + " blocks; accepted: 1 to " +
                      std::to_string(std::numeric_limits<int32_t>::max() / kKvBlockTokens));
  }
  int32_t live_vocab =
      std::min(config.vocab_size, config.live_vocab_size.value_or(config.vocab_size));
  if (options.live_vocab) live_vocab = std::clamp(*options.live_vocab, 1, live_vocab);
  const LayerRange layers = options.layers.value_or(LayerRange::all(config));
  if (config.eagle3) {
    FORERUN_RETURN_IF_ERROR(
        check_head(config, options, layers).with_context(checkpoint.path().string()));
  }
  auto plan = make_shard_plan(config, static_cast<int32_t>(options.devices.size()), live_vocab);
  const auto& where = checkpoint.path().string();
  if (!plan.ok()) return plan.status().with_context(where);
  FORERUN_RETURN_IF_ERROR(check_layer_range(layers, config).with_context(where));
  FORERUN_RETURN_IF_ERROR(check_taps(options.taps, layers, config).with_context(where));
  if (!layers.heads) {
    for (DeviceShard& part : plan->devices) part.vocab = {};
  }
  FORERUN_RETURN_IF_ERROR(check_kernels_take(config, *plan).with_context(where));
  FORERUN_RETURN_IF_ERROR(
      check_decoder_cuda_memory(checkpoint, *plan, options).with_context(where));

  std::unique_ptr<DecoderCuda> decoder(new DecoderCuda(config, options));
  // Released before a decoder that failed to load is destroyed.
  const GpusInUse all = GpusInUse::everywhere();
  FORERUN_ASSIGN_OR_RETURN(decoder->rope_,
                           RopeTable::create(rope_frequencies(config), config.max_position));
  FORERUN_RETURN_IF_ERROR(decoder->load_shards(checkpoint, options, *plan));
  const bool sums_known = options.devices.size() == 1 || decoder->maxima_;
  decoder->logits_ = std::make_unique<StepLogitsCuda>(live_vocab, sums_known);
  // Allocating page-locked memory takes long.
  FORERUN_RETURN_IF_ERROR(decoder->logits_->make_room(1, 1));
  const Result<int> prepared = decoder->prepare_graph_passes();
  if (!prepared.ok()) return prepared.status().with_context(where);
  return decoder;
}

Status DecoderCuda::check_head(const ModelConfig& config, const DecoderCudaOptions& options,
                               const LayerRange& layers) {
  const auto* const target = dynamic_cast<const DecoderCuda*>(options.target_decoder);
  if (options.target == nullptr || target == nullptr || target->taps_.places() == 0) {
    return refuse_head("no target on GPUs", "one with taps, without which a head cannot run");
  }
  if (options.devices != std::vector<int32_t>{target->devices_.front()}) {
    return refuse_head(
        std::to_string(options.devices.size()) +
            " devices, the first cuda:" + std::to_string(options.devices.front()),
        "cuda:" + std::to_string(target->devices_.front()) + " alone, where its target keeps taps");
  }
  return check_head_ports(config, layers, options.taps,
                          {.config = target->config_,
                           .taps = target->taps_.after_layers(),
                           .tap_width = target->taps_.hidden_size()});
}

Result<int> DecoderCuda::prepare_graph_passes() {
  const int64_t max_context = std::min<int64_t>(config_.max_position, kv_blocks_ * kKvBlockTokens);
  std::vector<PassKeyCuda> passes =
      graph_passes_cuda(shape_.attention, max_context, max_pass_rows_);
  add_variants(taps_.places() > 0, &PassKeyCuda::keeps_taps, passes);
  add_variants(target_ != nullptr, &PassKeyCuda::projects_taps, passes);
  const auto prepare_all = [&](ShardCuda& shard) -> Status {
    for (const PassKeyCuda& pass : passes) {
      if (pass.wanted > 0 && !layers_.heads) continue;
      FORERUN_RETURN_IF_ERROR(shard.prepare(pass));
    }
    return {};
  };
  FORERUN_RETURN_IF_ERROR(on_all(prepare_all));
  return static_cast<int>(passes.size());
}

DecoderCuda::~DecoderCuda() {
  const GpusInUse all = GpusInUse::everywhere();
  logits_.reset();
  shards_.clear();
  handed_taps_ = {};
  taps_ = {};
  maxima_.reset();
  peers_.reset();
  pinned_step_ = {};
  hidden_in_ = {};
  hidden_out_ = {};
}

Status DecoderCuda::load_shards(const Checkpoint& checkpoint, const DecoderCudaOptions& options,
                                const ShardPlan& plan) {
  const size_t degree = devices_.size();
  const bool shares_gpus = std::set<int32_t>(devices_.begin(), devices_.end()).size() < degree;
  if (shares_gpus) max_pass_rows_ = kSharedPassRows;
  FORERUN_CUDA_RETURN_IF_ERROR(cudaSetDevice(devices_[0]), "choosing the GPU");
  FORERUN_ASSIGN_OR_RETURN(taps_, TapStoreCuda::allocate(options.taps, config_.hidden_size));
  FORERUN_ASSIGN_OR_RETURN(handed_taps_, HandedTapsCuda::allocate(taps_, layers_));
  FORERUN_ASSIGN_OR_RETURN(pinned_step_,
                           PinnedBuffer::allocate(kStepBytesCuda, "the data of a step"));
  const size_t hidden_bytes = kMaxPassRows * hidden_row_bytes();
  if (!layers_.embeds) {
    FORERUN_ASSIGN_OR_RETURN(hidden_in_, PinnedBuffer::allocate(hidden_bytes, "hidden rows"));
  }
  if (!layers_.heads) {
    FORERUN_ASSIGN_OR_RETURN(hidden_out_, PinnedBuffer::allocate(hidden_bytes, "hidden rows"));
  }
  if (degree > 1) {
    FORERUN_ASSIGN_OR_RETURN(peers_, PeerGroup::create(devices_, {.max_rows = max_pass_rows_,
                                                                  .width = config_.hidden_size,
                                                                  .shared_gpus = shares_gpus}));
  }
  // Parts that share a GPU and wait for each other in one kernel may not both fit on it.
  if (degree > 1 && !shares_gpus && layers_.heads) {
    FORERUN_ASSIGN_OR_RETURN(maxima_,
                             PeerGroup::create(devices_, row_maxima_group(max_pass_rows_)));
  }
  uint32_t ranks_with_head = 0;
  for (size_t rank = 0; rank < degree; ++rank) {
    const bool has_head = plan.devices[rank].vocab.size() > 0;
    ranks_with_head |= (has_head ? 1u : 0u) << rank;
  }
  FORERUN_ASSIGN_OR_RETURN(threads_, CpuDevice::create({}, static_cast<int32_t>(degree)));
  shards_.resize(degree);
  // All GPUs load their parts at the same time; the caller's thread reports the sum.
  std::vector<std::atomic<double>> fractions(degree);
  std::vector<Status> statuses(degree);
  threads_->run([&](const Team& team) {
    const auto rank = static_cast<size_t>(team.rank());
    const auto progress = [&, rank](double fraction) {
      fractions[rank] = fraction;
      if (rank != 0 || !options.progress) return;
      options.progress(std::accumulate(fractions.begin(), fractions.end(), 0.0) /
                       static_cast<double>(degree));
    };
    const ShardCudaOptions shard{.device = devices_[rank],
                                 .part = plan.devices[rank],
                                 .layers = layers_,
                                 .kv_blocks = kv_blocks_,
                                 .weights = options.weights,
                                 .step = pinned_step_.data(),
                                 .hidden_in = hidden_in_.data(),
                                 .peers = peers_ ? &peers_->rank(team.rank()) : nullptr,
                                 .maxima = maxima_ ? &maxima_->rank(team.rank()) : nullptr,
                                 .ranks_with_head = ranks_with_head,
                                 .shares_gpu = shares_gpus,
                                 .taps = rank == 0 && taps_.places() > 0 ? &taps_ : nullptr,
                                 .target = options.target,
                                 .target_shard = target_ ? target_->shards_[0].get() : nullptr,
                                 .target_taps = target_ ? &target_->taps_ : nullptr};
    statuses[rank] = guarded([&]() -> Status {
      FORERUN_ASSIGN_OR_RETURN(shards_[rank], ShardCuda::load(checkpoint, shard, progress));
      return {};
    });
  });
  for (const Status& status : statuses) FORERUN_RETURN_IF_ERROR(status);
  if (options.progress) options.progress(1.0);
  shape_ = shards_[0]->shape();
  AttentionShapeCuda& all = shape_.attention;
  for (const auto& shard : shards_) {
    const AttentionShapeCuda& shard_shape = shard->shape().attention;
    all.kv_parts = std::max(all.kv_parts, shard_shape.kv_parts);
    all.multiprocessors = std::min(all.multiprocessors, shard_shape.multiprocessors);
    all.max_partials = std::min(all.max_partials, shard_shape.max_partials);
  }
  return {};
}

int64_t DecoderCuda::kv_block_bytes() const {
  int64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->kv_block_bytes();
  return bytes;
}

Status DecoderCuda::on_all(const std::function<Status(ShardCuda&)>& work,
                           const std::function<void()>& unusable) {
  if (shards_.size() == 1) {
    FORERUN_RETURN_IF_ERROR(shards_[0]->use());
    return guarded([&] { return work(*shards_[0]); });
  }
  std::array<Status, kMaxDegree> statuses;
  threads_->run([&](const Team& team) {
    const auto rank = static_cast<size_t>(team.rank());
    statuses[rank] = guarded([&]() -> Status {
      Status used = shards_[rank]->use();
      if (used.ok()) return work(*shards_[rank]);
      if (unusable) unusable();
      return used;
    });
  });
  for (Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

Status DecoderCuda::run_all(const std::function<Status(ShardCuda&)>& submit,
                            const Meanwhile& meanwhile) {
  // A shard that does not start keeps the others waiting.
  const auto end_waiting = [&] {
    if (peers_) peers_->abort();
  };
  Status ran = on_all(
      [&](ShardCuda& shard) -> Status {
        Status submitted = guarded([&] { return submit(shard); });
        if (!submitted.ok()) end_waiting();
        // The first shard runs on the caller's thread.
        if (meanwhile && submitted.ok() && &shard == shards_[0].get()) meanwhile();
        const Status finished =
            shard.finish();  // even after a failure, since kernels may still read the Step's data
        return submitted.ok() ? finished : submitted;
      },
      end_waiting);
  if (!peers_) return ran;
  const Status met = peers_->check();
  if (ran.ok() && met.ok()) return {};
  Status usable = peers_->reset();  // fails only on a CUDA error, which `ran` then reports
  if (usable.ok() && maxima_) usable = maxima_->reset();
  if (!ran.ok()) return ran;
  return met.ok() ? usable : met;
}

Status DecoderCuda::run_pass(const Step& step, size_t begin, size_t end, int64_t first_logits_row,
                             const StepEdits& edits, const Meanwhile& meanwhile) {
  const auto wanted =
      !layers_.heads ? 0
                     : std::count_if(step.rows.begin() + static_cast<ptrdiff_t>(begin),
                                     step.rows.begin() + static_cast<ptrdiff_t>(end), wants_logits);
  const HostLogits logits = logits_->of_pass(first_logits_row, wanted, edits);
  const bool is_whole = begin == 0 && end == step.rows.size();
  if (!is_whole || !predicted_.take(step, logits.queries, block_)) {
    block_.build(step, begin, end, logits.queries, shape_, rope_);
  }
  logits_->append_edits(logits.queries, edits, block_);
  if (std::any_of(step.selections.begin(), step.selections.end(),
                  [](const KvSelection& each) { return each.index_blocks != nullptr; })) {
    return {StatusCode::kInvalidArgument,
            "KV selection by quantized keys; accepted on GPUs: selection by keys"};
  }
  for (const PassSelectionCuda& selection : block_.selections()) {
    if (selection.first_row + selection.observers <= block_.num_rows()) continue;
    return {StatusCode::kInvalidArgument, "KV selection by " + std::to_string(selection.observers) +
                                              " rows; accepted on these GPUs: at most " +
                                              std::to_string(max_pass_rows_)};
  }
  if (block_.bytes().size() > pinned_step_.bytes()) {
    return {StatusCode::kResourceExhausted,
            "a step of " + std::to_string(end - begin) + " rows needs " +
                std::to_string(block_.bytes().size()) + " bytes of lists; there is room for " +
                std::to_string(pinned_step_.bytes())};
  }
  std::memcpy(pinned_step_.data(), block_.bytes().data(), block_.bytes().size());
  const size_t hidden_bytes = (end - begin) * hidden_row_bytes();
  if (!layers_.embeds) {
    std::memcpy(hidden_in_.data(), step.hidden.bytes.data() + begin * hidden_row_bytes(),
                hidden_bytes);
  }
  const PassKeyCuda key{.rows = pass_bucket(block_.num_rows()),
                        .wanted = pass_bucket(block_.num_wanted()),
                        .kernel = block_.kernel(),
                        .shared_prefix = block_.shared_prefix(),
                        .keeps_taps = block_.keeps_taps(),
                        .projects_taps = block_.projects_taps()};
  if (std::any_of(shards_.begin(), shards_.end(),
                  [&](const auto& shard) { return shard->must_prepare(key); })) {
    const GpusInUse all = GpusInUse::everywhere();
    FORERUN_RETURN_IF_ERROR(on_all([&](ShardCuda& shard) { return shard.prepare(key); }));
  }
  const auto while_it_runs = [&] {
    if (meanwhile) meanwhile();
    if (is_whole) predicted_.predict(step, max_pass_rows_, shape_, rope_);
  };
  // With one GPU, many masks are written while it works on the layers.
  std::function<void()> write_masks = [&] { logits_->write_masks(logits.queries, edits); };
  const int32_t masks = StepLogitsCuda::count_masks(logits.queries, edits);
  if (shards_.size() > 1 || masks < kFewestLateMasks) {
    write_masks();
    write_masks = {};
  }
  const GpusInUse in_use(devices_);
  FORERUN_RETURN_IF_ERROR(run_all(
      [&](ShardCuda& shard) {
        // All shards have the same rows of the residual stream, so only the first one's are copied.
        const bool leaves = !layers_.heads && &shard == shards_[0].get();
        const HostHidden hidden{.rows = leaves ? hidden_out_.data() : nullptr,
                                .count = static_cast<int64_t>(end - begin)};
        return shard.launch(key, logits, hidden, block_.selections(), write_masks);
      },
      while_it_runs));
  if (!layers_.heads) {
    std::memcpy(hidden_.data() + begin * hidden_row_bytes(), hidden_out_.data(), hidden_bytes);
  }
  return {};
}

Status DecoderCuda::forward(const Step& step) {
  return forward_summarized(step, {}, NoEdits(), {});
}

Status DecoderCuda::forward_summarized(const Step& step, std::span<const RowQuery> queries,
                                       const StepEdits& edits, const Meanwhile& meanwhile) {
  FORERUN_RETURN_IF_ERROR(
      check_step(step, config_, layers_, DType::kBf16, kv_blocks_,
                 {.taps = taps_.places(), .features = target_ ? target_->taps_.places() : 0}));
  const auto wanted =
      layers_.heads ? std::count_if(step.rows.begin(), step.rows.end(), wants_logits) : 0;
  if (!layers_.heads) {
    queries = {};
    hidden_rows_ = step.rows.size();
    hidden_.resize(std::max(hidden_.size(), hidden_rows_ * hidden_row_bytes()));
  }
  if (!logits_->has_room(wanted, edits.num_masks())) {
    const GpusInUse all = GpusInUse::everywhere();
    FORERUN_RETURN_IF_ERROR(logits_->make_room(wanted, edits.num_masks()));
  }
  logits_->start(wanted, queries);
  int64_t first_logits_row = 0;
  for (size_t begin = 0, end = 0; begin < step.rows.size(); begin = end) {
    end = StepBlockCuda::pass_end(step, begin, max_pass_rows_);
    FORERUN_RETURN_IF_ERROR(
        run_pass(step, begin, end, first_logits_row, edits, begin == 0 ? meanwhile : Meanwhile()));
    first_logits_row += block_.num_wanted();
  }
  std::vector<ShardCuda*> heads;
  for (const auto& shard : shards_) {
    if (shard->layout().has_head()) heads.push_back(shard.get());
  }
  logits_->finish(std::move(heads));
  return {};
}

LogitsPart DecoderCuda::logits(int32_t /*rank*/) const {
  return {.values = logits_->rows(), .on_device = logits_.get()};
}

HiddenRows DecoderCuda::hidden() const {
  if (layers_.heads) return {};
  return {.dtype = DType::kBf16,
          .width = config_.hidden_size,
          .bytes = std::span(hidden_).first(hidden_rows_ * hidden_row_bytes())};
}

Status DecoderCuda::read_taps(std::span<const StepTap> taps, std::vector<std::byte>& rows) {
  FORERUN_RETURN_IF_ERROR(shards_[0]->use());
  const GpusInUse in_use(devices_);
  return handed_taps_.read(taps, rows, shards_[0]->stream());
}

Status DecoderCuda::write_taps(std::span<const StepTap> taps, std::span<const std::byte> rows) {
  FORERUN_RETURN_IF_ERROR(shards_[0]->use());
  const GpusInUse in_use(devices_);
  return handed_taps_.write(taps, rows, shards_[0]->stream());
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
  for (const auto& shard : shards_) {
    FORERUN_RETURN_IF_ERROR(shard->use());
    FORERUN_RETURN_IF_ERROR(shard->move_kv(physical));
  }
  return {};
}

Result<float> DecoderCuda::time_replays(int times) {
  FORERUN_RETURN_IF_ERROR(shards_[0]->use());
  FORERUN_ASSIGN_OR_RETURN(const Event start, Event::create());
  FORERUN_ASSIGN_OR_RETURN(const Event end, Event::create());
  const GpusInUse in_use(devices_);
  const Status ran = run_all([&](ShardCuda& shard) -> Status {
    const bool timed = &shard == shards_[0].get();
    if (timed) FORERUN_RETURN_IF_ERROR(start.record(shard.stream()));
    FORERUN_RETURN_IF_ERROR(shard.replay(times));
    return timed ? end.record(shard.stream()) : Status();
  });
  FORERUN_RETURN_IF_ERROR(ran);
  return end.elapsed_ms(start);
}

Result<std::unique_ptr<Decoder>> load_decoder_cuda(const Checkpoint& checkpoint,
                                                   DecoderCudaOptions options) {
  FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<DecoderCuda> decoder,
                           DecoderCuda::load(checkpoint, options));
  return std::unique_ptr<Decoder>(std::move(decoder));
}

}  // namespace forerun::cuda
