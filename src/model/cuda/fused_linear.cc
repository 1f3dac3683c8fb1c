#include "model/cuda/fused_linear.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "model/weight_packing.h"

namespace forerun::cuda {
namespace {

constexpr int64_t kOutputsOfWord = 8;        // outputs of one packed word of int4
constexpr int64_t kOutputsOfGatedTile = 16;  // outputs of gate or up in a tile

std::optional<LinearFormat> layer_rounding(WeightOverride weights, const Slice& in) {
  constexpr LinearFormat kInt4 = LinearFormat::kInt4Group128;
  if (weights != WeightOverride::kInt4 || in.total % unit_inputs(kInt4) != 0) return std::nullopt;
  return kInt4;
}

// Returns for each part the format in which kernels read it as it is stored, unset if they cannot.
// An all-zero weight has no entries.
std::vector<std::optional<LinearFormat>> stored_formats(const FusedLinear& linear,
                                                        std::span<const LinearSource> sources) {
  std::vector<std::optional<LinearFormat>> formats;
  for (size_t i = 0; i < sources.size() && !linear.all_zero(); ++i) {
    formats.push_back(format_as_stored(linear.parts[i], linear.in, sources[i]));
  }
  return formats;
}

}  // namespace

LayerLinears layer_linears(const ModelConfig& config, const ShardLayoutCuda& layout, int32_t layer,
                           WeightOverride weights) {
  constexpr auto kPlain = OutputPlacement::kPlain;
  using enum ModuleKind;
  const Slice hidden = Slice::of_all(config.hidden_size);
  // The first layer of an EAGLE-3 head reads the embedding and the feature, side by side.
  const bool is_joined = config.eagle3 && layer == 0;
  const Slice qkv_in = is_joined ? Slice::of_all(int64_t{2} * config.hidden_size) : hidden;
  return {.qkv = {.parts = {{{kQ, layer}, layout.q_out, kPlain, 0},
                            {{kK, layer}, layout.kv_out, kPlain, layout.k_offset},
                            {{kV, layer}, layout.kv_out, kPlain, layout.v_offset}},
                  .in = qkv_in,
                  .outputs = layout.qkv_width,
                  .rounded_to = layer_rounding(weights, qkv_in),
                  .before_attention = true},
          .o = {.parts = {{{kO, layer}, hidden, kPlain, 0}},
                .in = layout.o_in,
                .outputs = config.hidden_size,
                .rounded_to = layer_rounding(weights, layout.o_in)},
          .gate_up = {.parts = {{{kGate, layer}, layout.mlp_out, OutputPlacement::kGate, 0},
                                {{kUp, layer}, layout.mlp_out, OutputPlacement::kUp, 0}},
                      .in = hidden,
                      .outputs = 2 * layout.mlp_out.total,
                      .rounded_to = layer_rounding(weights, hidden)},
          .down = {.parts = {{{kDown, layer}, hidden, kPlain, 0}},
                   .in = layout.mlp_in,
                   .outputs = config.hidden_size,
                   .rounded_to = layer_rounding(weights, layout.mlp_in)}};
}

FusedLinear head_linear(const ModelConfig& config, const ShardLayoutCuda& layout,
                        WeightOverride weights, ModuleKind stored_as) {
  std::optional<LinearFormat> rounded_to;
  if (weights == WeightOverride::kInt8Head) rounded_to = LinearFormat::kInt8Group64;
  if (weights == WeightOverride::kInt4Head || weights == WeightOverride::kInt4)
    rounded_to = LinearFormat::kInt4Group128;
  if (rounded_to && config.hidden_size % unit_inputs(*rounded_to) != 0) rounded_to.reset();
  return {.parts = {{{stored_as}, layout.head_out, OutputPlacement::kPlain, 0}},
          .in = Slice::of_all(config.hidden_size),
          .outputs = layout.head_out.total,
          .rounded_to = rounded_to};
}

FusedLinear tap_projection_linear(const ModelConfig& config, WeightOverride weights) {
  const Slice hidden = Slice::of_all(config.hidden_size);
  const Slice in = Slice::of_all(config.eagle3->taps_width());
  return {.parts = {{{ModuleKind::kTapProjection}, hidden, OutputPlacement::kPlain, 0}},
          .in = in,
          .outputs = config.hidden_size,
          .rounded_to = layer_rounding(weights, in)};
}

Result<bool> tied_head_is_copied(const Checkpoint& checkpoint) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor,
                           require_weight(checkpoint, {ModuleKind::kEmbedding}));
  return checkpoint.config().tied_embeddings && !gpu_embedding_format(*tensor);
}

LmHeadSource find_lm_head(const Checkpoint& checkpoint, const Checkpoint* target) {
  const auto& eagle3 = checkpoint.config().eagle3;
  const Checkpoint& source =
      eagle3 && !eagle3->own_head && target != nullptr ? *target : checkpoint;
  return {.checkpoint = &source,
          .module = source.config().tied_embeddings ? ModuleKind::kEmbedding : ModuleKind::kHead};
}

bool may_share_lm_head(const ModelConfig& config, const FusedLinear& lm_head,
                       const ShardLayoutCuda& layout) {
  return config.eagle3 && !config.eagle3->own_head && !lm_head.rounded_to &&
         !layout.spreads_logits();
}

Result<std::vector<LinearSource>> find_sources(const Checkpoint& checkpoint,
                                               const FusedLinear& linear) {
  std::vector<LinearSource> sources;
  for (const FusedPart& part : linear.parts) {
    FORERUN_ASSIGN_OR_RETURN(LinearSource source, LinearSource::find(checkpoint, part.module));
    sources.push_back(std::move(source));
  }
  return sources;
}

bool takes_words(const FusedPart& part, const Slice& in, const LinearSource& source) {
  const bool is_plain = part.placement == OutputPlacement::kPlain;
  return source.packs_as_int4(part.out, in, is_plain ? kOutputsOfWord : kOutputsOfGatedTile);
}

std::optional<LinearFormat> format_as_stored(const FusedPart& part, const Slice& in,
                                             const LinearSource& source) {
  if (takes_words(part, in, source)) return LinearFormat::kInt4Group128;
  const bool is_plain = part.placement == OutputPlacement::kPlain;
  if (!is_plain && part.out.total % kOutputsOfGatedTile != 0) return std::nullopt;
  return source.stored_format(in);
}

std::vector<FusedRun> runs_of_one_format(const FusedLinear& linear,
                                         std::span<const LinearSource> sources) {
  const auto formats = stored_formats(linear, sources);
  const bool cuts = !linear.rounded_to && !formats.empty() &&
                    std::all_of(formats.begin(), formats.end(),
                                [](const auto& format) { return format.has_value(); }) &&
                    std::all_of(linear.parts.begin(), linear.parts.end(), [](const auto& part) {
                      return part.placement == OutputPlacement::kPlain;
                    });
  std::vector<FusedRun> runs;
  for (size_t begin = 0; begin < linear.parts.size();) {
    size_t end = begin + 1;
    while (end < linear.parts.size() && (!cuts || formats[end] == formats[begin])) ++end;
    FusedRun& run = runs.emplace_back(FusedRun{
        .linear = linear, .first_part = begin, .first_output = linear.parts[begin].first_output});
    const bool is_last = end == linear.parts.size();
    const int64_t last_output = is_last ? linear.outputs : linear.parts[end].first_output;
    const auto part = [&linear](size_t idx) {
      return linear.parts.begin() + static_cast<std::ptrdiff_t>(idx);
    };
    run.linear.parts.assign(part(begin), part(end));
    for (FusedPart& each : run.linear.parts) each.first_output -= run.first_output;
    run.linear.outputs = last_output - run.first_output;
    run.linear.before_attention = linear.before_attention && is_last;
    begin = end;
  }
  return runs;
}

Result<LinearPlan> plan_fused(const FusedLinear& linear, std::span<const LinearSource> sources) {
  const auto formats = stored_formats(linear, sources);
  std::optional<LinearFormat> stored;
  if (!formats.empty() && std::all_of(formats.begin(), formats.end(), [&](const auto& format) {
        return format == formats.front();
      })) {
    stored = formats.front();
  }
  if (stored != LinearFormat::kInt4Group128 && linear.rounded_to) stored = linear.rounded_to;
  return plan_linear(stored.value_or(LinearFormat::kBf16), linear.in.total, linear.outputs,
                     /*may_idle_sms=*/linear.before_attention);
}

}  // namespace forerun::cuda
