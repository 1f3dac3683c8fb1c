#include "model/cpu_decoder.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "model/decoder_memory.h"
#include "model/head_ports.h"
#include "model/host_memory.h"
#include "model/rope_frequencies.h"
#include "model/step_check.h"

namespace forerun {
namespace {

static_assert(kAttentionTile == kKvBlockTokens);

}  // namespace

Result<std::unique_ptr<Decoder>> CpuDecoder::load(const Checkpoint& checkpoint,
                                                  CpuDeviceGroup* group,
                                                  CpuDecoderOptions options) {
  const ModelConfig& config = checkpoint.config();
  if (options.kv_blocks < 1 || options.kv_blocks > std::numeric_limits<int32_t>::max()) {
    return Status(StatusCode::kInvalidArgument,
                  "KV cache of " + std::to_string(options.kv_blocks) + " blocks; accepted: 1 to " +
                      std::to_string(std::numeric_limits<int32_t>::max()));
  }
  const LayerRange layers = options.layers.value_or(LayerRange::all(config));
  FORERUN_RETURN_IF_ERROR(
      check_layer_range(layers, config).with_context(checkpoint.path().string()));
  FORERUN_RETURN_IF_ERROR(
      check_taps(options.taps, layers, config).with_context(checkpoint.path().string()));
  if (config.eagle3) {
    FORERUN_RETURN_IF_ERROR(check_head(config, options, layers, group->degree())
                                .with_context(checkpoint.path().string()));
  }
  int32_t live_vocab =
      std::min(config.vocab_size, config.live_vocab_size.value_or(config.vocab_size));
  if (options.live_vocab) live_vocab = std::clamp(*options.live_vocab, 1, live_vocab);
  // Number of rows of the LM head. The rows of a reduced vocabulary are not in token order.
  const bool is_reduced = !checkpoint.draft_tokens().empty();
  auto plan = make_shard_plan(config, group->degree(),
                              is_reduced ? config.eagle3->draft_vocab_size : live_vocab);
  if (!plan.ok()) return plan.status().with_context(checkpoint.path().string());
  DeviceMemory memory = host_memory();  // all devices share it
  memory.needs = estimate_group_memory(checkpoint, options.weights, options.activation, *plan,
                                       layers, options.target);
  const DType hidden_dtype = options.activation == Activation::kF32 ? DType::kF32 : DType::kBf16;
  TapStore taps(std::move(options.taps), config.hidden_size, hidden_dtype);
  memory.needs.front().buffer_bytes += taps.bytes();
  FORERUN_RETURN_IF_ERROR(
      check_memory({&memory, 1}, options.kv_blocks).with_context(checkpoint.path().string()));

  std::unique_ptr<CpuDecoder> decoder(new CpuDecoder(config, layers, options.activation, group));
  decoder->kv_blocks_ = options.kv_blocks;
  decoder->taps_ = std::move(taps);
  decoder->taps_in_front_ = taps_in_front(decoder->taps_.after_layers(), layers);
  decoder->target_taps_ = options.target_taps;
  decoder->files_ =
      WeightFiles(checkpoint, [&](ModuleId module) { return layers.holds(module, config); });
  decoder->chunk_.reserve();
  FORERUN_ASSIGN_OR_RETURN(decoder->rope_,
                           RopeTable::create(rope_frequencies(config), config.max_position));
  const auto degree = static_cast<double>(group->degree());
  for (int32_t rank = 0; rank < group->degree(); ++rank) {
    CpuShardOptions part;
    part.part = plan->devices[static_cast<size_t>(rank)];
    part.layers = layers;
    part.degree = group->degree();
    part.team_size = group->team_size(rank);
    part.activation = options.activation;
    part.weights = options.weights;
    part.kv_blocks = options.kv_blocks;
    part.live_vocab = live_vocab;
    part.target = options.target;
    part.target_taps = options.target_taps;
    std::function<void(double)> progress;
    if (options.progress) {
      progress = [&](double fraction) { options.progress((rank + fraction) / degree); };
    }
    FORERUN_ASSIGN_OR_RETURN(std::unique_ptr<CpuShard> shard,
                             CpuShard::load(checkpoint, part, &decoder->rope_, progress));
    decoder->shards_.push_back(std::move(shard));
  }
  return std::unique_ptr<Decoder>(std::move(decoder));
}

Status CpuDecoder::check_head(const ModelConfig& config, const CpuDecoderOptions& options,
                              const LayerRange& layers, int32_t degree) {
  if (options.target == nullptr || options.target_taps == nullptr) {
    return refuse_head("no target", "a target with taps, without which a head cannot run");
  }
  if (degree != 1) return refuse_head(std::to_string(degree) + " devices", "one");
  return check_head_ports(config, layers, options.taps,
                          {.config = options.target->config(),
                           .taps = options.target_taps->after_layers(),
                           .tap_width = options.target_taps->hidden_size()});
}

int64_t CpuDecoder::kv_block_bytes() const {
  int64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->kv().block_bytes();
  return bytes;
}

// Returns the end of the chunk of rows that begins with row `begin`. Rows that choose KV together
// stay in one chunk.
size_t CpuDecoder::chunk_end(const Step& step, size_t begin) {
  size_t end = std::min(step.rows.size(), begin + static_cast<size_t>(kMaxChunkRows));
  for (const KvSelection& selection : step.selections) {
    const auto first = static_cast<size_t>(selection.first_row);
    if (first > begin && first < end && first + static_cast<size_t>(selection.num_rows) > end) {
      end = first;
    }
  }
  return end;
}

void CpuDecoder::fill_chunk(const Step& step, size_t begin, size_t end) {
  chunk_.clear();
  chunk_.first_row = static_cast<int32_t>(begin);
  const auto of_chunk = [begin, end](const KvSelection& selection) {
    const auto first = static_cast<size_t>(selection.first_row);
    return first >= begin && first < end;
  };
  const auto first = std::find_if(step.selections.begin(), step.selections.end(), of_chunk);
  const auto last = std::find_if_not(first, step.selections.end(), of_chunk);
  chunk_.selections = {first, last};
  chunk_.sequences = step.sequences;
  if (!layers_.embeds) chunk_.hidden_in = step.hidden.bytes.data() + begin * hidden_row_bytes();
  if (!layers_.heads) chunk_.hidden_out = hidden_.data() + begin * hidden_row_bytes();
  fill_taps(step, begin, end);
  for (size_t row_idx = begin; row_idx < end; ++row_idx) {
    const StepRow& from = step.rows[row_idx];
    AttentionRow row;
    row.last_visible = from.visible - 1;
    row.boundary = from.boundary;
    row.slot = from.slot;
    row.block_table = step.sequences[static_cast<size_t>(from.sequence_idx)].block_table;
    row.ancestors =
        from.boundary == from.visible ? nullptr : step.ancestors.data() + from.ancestor_begin;
    rope_.prepare(from.position);
    chunk_.tokens.push_back(from.token);
    chunk_.rows.attend.push_back(row);
    chunk_.rows.positions.push_back(from.position);
    if (from.wants_logits) {
      chunk_.wanted.push_back(static_cast<int32_t>(row_idx - begin));
      chunk_.wanted_rows.attend.push_back(row);
      chunk_.wanted_rows.positions.push_back(from.position);
    }
  }
}

void CpuDecoder::fill_taps(const Step& step, size_t begin, size_t end) {
  const auto first_from = [&step](size_t row_idx) {
    return std::partition_point(step.taps.begin(), step.taps.end(), [row_idx](const StepTap& tap) {
      return static_cast<size_t>(tap.row) < row_idx;
    });
  };
  chunk_.taps = {first_from(begin), first_from(end)};
  chunk_.tap_store = &taps_;
  chunk_.features = {};
  if (!step.features.empty()) {
    chunk_.features = std::span(step.features).subspan(begin, end - begin);
  }
  const auto tapped = taps_.after_layers();
  chunk_.keeps_all_rows =
      std::find(tapped.begin(), tapped.end(), config_.num_layers) != tapped.end() &&
      std::any_of(chunk_.taps.begin(), chunk_.taps.end(), [&step](const StepTap& tap) {
        return !step.rows[static_cast<size_t>(tap.row)].wants_logits;
      });
}

Status CpuDecoder::forward(const Step& step) {
  FORERUN_RETURN_IF_ERROR(check_step(
      step, config_, layers_, hidden_dtype_, kv_blocks(),
      {.taps = taps_.places(), .features = target_taps_ == nullptr ? 0 : target_taps_->places()}));
  logits_rows_ = std::count_if(step.rows.begin(), step.rows.end(),
                               [](const StepRow& row) { return row.wants_logits; });
  if (layers_.heads) {
    for (const auto& shard : shards_) shard->reserve_logits(logits_rows_);
  } else {
    hidden_rows_ = step.rows.size();
    if (hidden_.size() < hidden_rows_ * hidden_row_bytes()) {
      hidden_.resize(hidden_rows_ * hidden_row_bytes());
    }
  }
  chunk_.first_logits_row = 0;
  for (size_t begin = 0, end = 0; begin < step.rows.size(); begin = end) {
    end = chunk_end(step, begin);
    fill_chunk(step, begin, end);
    for (const auto& shard : shards_) shard->plan(chunk_);
    FORERUN_RETURN_IF_ERROR(group_->run([this](const GroupMember& member) {
      shards_[static_cast<size_t>(member.peers.rank())]->run(member.team, member.peers, chunk_);
    }));
    chunk_.first_logits_row += static_cast<int64_t>(chunk_.wanted.size());
  }
  return check_weights();
}

LogitsPart CpuDecoder::logits(int32_t rank) const {
  return shards_[static_cast<size_t>(rank)]->logits(logits_rows_);
}

HiddenRows CpuDecoder::hidden() const {
  if (layers_.heads) return {};
  return {.dtype = hidden_dtype_,
          .width = config_.hidden_size,
          .bytes = std::span(hidden_).first(hidden_rows_ * hidden_row_bytes())};
}

Status CpuDecoder::read_taps(std::span<const StepTap> taps, std::vector<std::byte>& rows) {
  const size_t row_bytes = taps_.after_layers().size() * hidden_row_bytes();
  for (const StepTap& tap : taps) {
    const std::byte* const row = taps_.row(tap.place);
    rows.insert(rows.end(), row, row + row_bytes);
  }
  return {};
}

Status CpuDecoder::write_taps(std::span<const StepTap> taps, std::span<const std::byte> rows) {
  FORERUN_RETURN_IF_ERROR(check_written_taps(
      taps, taps_.places(), taps_in_front_.size() * hidden_row_bytes(), rows.size()));
  const std::byte* from = rows.data();
  for (const StepTap& tap : taps) {
    for (const size_t tap_idx : taps_in_front_) {
      std::copy_n(from, hidden_row_bytes(), taps_.tap(tap.place, tap_idx));
      from += hidden_row_bytes();
    }
  }
  return {};
}

Status CpuDecoder::move_kv(const StepSequence& sequence, std::span<const KvMove> moves) {
  FORERUN_RETURN_IF_ERROR(check_kv_moves(moves));
  // Moves in this order overwrite nothing that a later move reads, because targets lie at or below
  // their sources.
  for (const KvMove& move : moves) {
    if (move.from_slot == move.to_slot) continue;
    for (const auto& shard : shards_) {
      shard->kv().copy_slot(
          sequence.block_table[move.from_slot / kKvBlockTokens], move.from_slot % kKvBlockTokens,
          sequence.block_table[move.to_slot / kKvBlockTokens], move.to_slot % kKvBlockTokens);
    }
  }
  return {};
}

}  // namespace forerun
