// The passes are collective functions, which every member of the team calls. A comment at each
// barrier names the condition that it waits for.
#include "model/cpu_shard.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/embedding/embedding.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace forerun {
namespace {

template <class... Weights>
WeightFormats formats_of(const Weights&... weights) {
  return (weight_formats(weights.format()) | ...);
}

// Converts the member's share of `count` consecutive values from `from` to `to`.
template <class From, class To, class Convert>
void convert_share(const Team& team, int64_t count, const From* from, To* to, Convert convert) {
  const WorkRange share = team.share(count);
  std::transform(from + share.begin, from + share.end, to + share.begin, convert);
}

// Converts the contents of a store's place to f32.
void widen_place(const TapStore& store, int32_t place, float* to) {
  const std::byte* const row = store.row(place);
  if (store.dtype() == DType::kBf16) {
    const auto* const from = reinterpret_cast<const bf16*>(row);
    std::transform(from, from + store.width(), to, [](bf16 value) { return to_float(value); });
  } else {
    const auto* const from = reinterpret_cast<const float*>(row);
    std::copy(from, from + store.width(), to);
  }
}

}  // namespace

void ForwardChunk::reserve() {
  tokens.reserve(kMaxChunkRows);
  wanted.reserve(kMaxChunkRows);
  for (Rows* row_set : {&rows, &wanted_rows}) {
    row_set->attend.reserve(kMaxChunkRows);
    row_set->positions.reserve(kMaxChunkRows);
  }
}

void ForwardChunk::clear() {
  tokens.clear();
  wanted.clear();
  for (Rows* row_set : {&rows, &wanted_rows}) {
    row_set->attend.clear();
    row_set->positions.clear();
  }
}

CpuShard::CpuShard(const ModelConfig& config, const CpuShardOptions& options, const RopeTable* rope)
    : config_(config),
      part_(options.part),
      layers_(options.layers),
      group_(config.num_heads / config.num_kv_heads),
      num_kv_heads_(static_cast<int32_t>(options.part.kv_heads.size())),
      activation_(options.activation),
      team_size_(options.team_size),
      rope_(rope),
      live_vocab_(options.live_vocab),
      target_taps_(options.target_taps) {
  buffers_.reserve(config_, part_, options.degree, activation_, team_size_);
  if (num_kv_heads_ > 0) {
    attention_scratch_.reserve(team_size_, num_slots(), num_kv_heads_, config_.head_dim);
  }
  plan_.blocks.reserve(kMaxChunkRows);
  wanted_plan_.blocks.reserve(kMaxChunkRows);
}

Result<std::unique_ptr<CpuShard>> CpuShard::load(const Checkpoint& checkpoint,
                                                 const CpuShardOptions& options,
                                                 const RopeTable* rope,
                                                 const std::function<void(double)>& progress) {
  const ModelConfig& config = checkpoint.config();
  std::unique_ptr<CpuShard> shard(new CpuShard(config, options, rope));
  FORERUN_ASSIGN_OR_RETURN(
      shard->weights_,
      load_decoder_weights(checkpoint, options.weights, options.activation, options.part,
                           options.layers, progress, options.target));
  shard->draft_tokens_ = checkpoint.draft_tokens();
  if (!shard->draft_tokens_.empty()) {
    shard->draft_logits_ = std::make_unique_for_overwrite<float[]>(
        static_cast<size_t>(kMaxChunkRows) * shard->draft_tokens_.size());
  }
  const DType kv_dtype = options.activation == Activation::kF32 ? DType::kF32 : DType::kBf16;
  FORERUN_ASSIGN_OR_RETURN(
      shard->kv_, KvStorage::create(config, options.layers.size(), options.part.kv_heads.size(),
                                    kv_dtype, options.kv_blocks));
  return shard;
}

void CpuShard::reserve_logits(int64_t rows) {
  if (rows <= logits_capacity_) return;
  const int64_t capacity = std::max(rows, std::min<int64_t>(2 * logits_capacity_, kMaxChunkRows));
  logits_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(capacity * logits_width()));
  logits_capacity_ = capacity;  // only once the memory is allocated
  // Tokens outside the reduced vocabulary keep this value (spread_logits).
  if (!draft_tokens_.empty()) {
    std::fill_n(logits_.get(), capacity * logits_width(), -std::numeric_limits<float>::infinity());
  }
}

LogitsPart CpuShard::logits(int64_t rows) const {
  if (!layers_.heads) return {};
  const int64_t tokens = draft_tokens_.empty() ? part_.vocab.size() : logits_width();
  return {MatrixView<const float>(logits_.get(), {rows, tokens}, logits_width()),
          static_cast<TokenId>(part_.vocab.begin)};
}

void CpuShard::plan(const ForwardChunk& chunk) {
  if (num_kv_heads_ == 0) return;
  plan_.build(chunk.rows.attend, num_slots(), num_kv_heads_, team_size_);
  attention_scratch_.reserve_partials(plan_, static_cast<int64_t>(chunk.rows.size()), num_slots(),
                                      config_.head_dim);
  for (const KvSelection& selection : chunk.selections) {
    selection_scratch_.reserve(team_size_, selection_call(chunk, selection, /*narrows=*/false),
                               num_slots(), kv_.layer(0));
  }
  wanted_plan_.build(chunk.wanted_rows.attend, num_slots(), num_kv_heads_, team_size_);
  attention_scratch_.reserve_partials(wanted_plan_, static_cast<int64_t>(chunk.wanted_rows.size()),
                                      num_slots(), config_.head_dim);
}

const LinearInput& CpuShard::pack(const Team& team, MatrixView<const float> x,
                                  const InputNeeds& needs) {
  if (x.dim(0) <= kMaxOwnRows) {
    const Team alone(0, 1, nullptr);
    LinearInput& own = buffers_.own_input(team.rank(), needs.second);
    own.pack(alone, x, activation_, needs.formats, needs.order);
    return own;
  }
  LinearInput& shared = buffers_.shared_input(needs.second);
  shared.pack(team, x, activation_, needs.formats, needs.order);
  team.sync();  // all rows packed
  return shared;
}

const LinearInput& CpuShard::pack_normalized(const Team& team, int64_t num_rows,
                                             std::span<const float> weight,
                                             const InputNeeds& needs) {
  const MatrixView<const float> x = hidden(num_rows);
  if (num_rows <= kMaxOwnRows) {
    const MatrixView<float> own = buffers_.own_normalized(team.rank(), num_rows);
    rms_norm(Team(0, 1, nullptr), x, weight, config_.rms_norm_eps, own);
    return pack(team, own, needs);
  }
  const MatrixView<float> shared = buffers_.normalized(num_rows);
  rms_norm(team, x, weight, config_.rms_norm_eps, shared);
  team.sync();  // all rows normalized
  return pack(team, shared, needs);
}

const LinearInput& CpuShard::pack_attention_input(const Team& team, int64_t num_rows,
                                                  const LayerWeights& layer,
                                                  const InputNeeds& needs) {
  if (layer.hidden_norm.empty()) return pack_normalized(team, num_rows, layer.input_norm, needs);
  return pack(team, buffers_.joined(num_rows), needs);
}

const LinearInput& CpuShard::repack_if_needed(const Team& team, int64_t num_rows,
                                              const LayerWeights& layer, const LinearWeight& weight,
                                              const LinearInput& packed,
                                              std::span<const int32_t>& order) {
  if (same_input_order(weight.input_order(), order)) return packed;
  order = weight.input_order();
  team.sync();  // no member reads the packed input any more
  return pack_attention_input(team, num_rows, layer,
                              {formats_of(layer.q, layer.k, layer.v), order});
}

void CpuShard::add_product(const Team& team, Collectives& peers, const LinearWeight& weight,
                           MatrixView<const float> inputs, std::span<const float> bias,
                           MatrixView<float> partial, MatrixView<float> x) {
  const InputNeeds needs = {formats_of(weight), weight.input_order()};
  if (peers.degree() == 1) {
    linear(team, weight, pack(team, inputs, needs), x, {bias, x.data(), rounds()});
  } else {
    if (weight.in_features() > 0) {
      linear(team, weight, pack(team, inputs, needs), partial);
    } else {
      const WorkRange columns = team.share(partial.dim(1), 16);
      for (int64_t row = 0; row < partial.dim(0); ++row) {
        std::fill(partial.row(row) + columns.begin, partial.row(row) + columns.end, 0.0f);
      }
    }
    peers.add_partials(partial, bias, rounds(), x);
  }
  team.sync();  // x complete
}

void CpuShard::keep_wanted_rows(const Team& team, const ForwardChunk& chunk) {
  const auto keep = [&](MatrixView<float> rows) {
    // Each member moves its own columns, so rows may slide over one another.
    const WorkRange columns = team.share(rows.dim(1), 16);
    for (size_t to = 0; to < chunk.wanted.size(); ++to) {
      const float* from = rows.row(chunk.wanted[to]);
      std::copy(from + columns.begin, from + columns.end,
                rows.row(static_cast<int64_t>(to)) + columns.begin);
    }
  };
  const auto num_rows = static_cast<int64_t>(chunk.rows.size());
  keep(hidden(num_rows));
  if (config_.eagle3) keep(buffers_.joined(num_rows));
}

void CpuShard::rotate_and_append(const Team& team, const LayerWeights& layer, const PagedKv& kv,
                                 const ForwardChunk::Rows& kv_rows,
                                 const ForwardChunk::Rows& q_rows) {
  const int64_t head_dim = config_.head_dim;
  const int64_t num_heads = part_.heads.size();
  const auto finish = [&](float* head, int32_t position, std::span<const float> norm) {
    if (!norm.empty()) rms_norm_row(head, norm, config_.rms_norm_eps, head);
    rope_head(head, rope_->cosines(position), rope_->sines(position), head_dim / 2);
  };
  const WorkRange q_share = team.share(static_cast<int64_t>(q_rows.size()) * num_heads);
  for (int64_t unit = q_share.begin; unit < q_share.end; ++unit) {
    const int64_t row_idx = unit / num_heads;
    const MatrixView<float> heads = buffers_.own_heads(buffers_.q(row_idx + 1));
    finish(heads.row(row_idx) + unit % num_heads * head_dim,
           q_rows.positions[static_cast<size_t>(row_idx)], layer.q_norm);
  }
  const WorkRange kv_share = team.share(static_cast<int64_t>(kv_rows.size()) * num_kv_heads_);
  for (int64_t unit = kv_share.begin; unit < kv_share.end; ++unit) {
    const int64_t row_idx = unit / num_kv_heads_;
    const auto kv_head = static_cast<int32_t>(unit % num_kv_heads_);
    if (kv_rows.attend[static_cast<size_t>(row_idx)].slot == kNoSlot) continue;
    float* k = buffers_.k(row_idx + 1).row(row_idx);
    finish(k + kv_head * head_dim, kv_rows.positions[static_cast<size_t>(row_idx)], layer.k_norm);
    append_kv_head(k, buffers_.v(row_idx + 1).row(row_idx),
                   kv_rows.attend[static_cast<size_t>(row_idx)], kv_head, kv);
  }
}

void CpuShard::run_mlp(const Team& team, Collectives& peers, const LayerWeights& layer,
                       int64_t num_rows) {
  const MatrixView<float> mlp = buffers_.mlp(num_rows);
  if (part_.mlp.size() > 0) {
    const LinearWeight& gate = layer.gate;
    const LinearWeight& up = layer.up;
    const LinearInput& input = pack_normalized(team, num_rows, layer.post_attention_norm,
                                               {formats_of(gate, up), gate.input_order()});
    const LinearInput* up_input = &input;
    if (!same_input_order(gate.input_order(), up.input_order())) {
      up_input = &pack_normalized(team, num_rows, layer.post_attention_norm,
                                  {formats_of(gate, up), up.input_order(), /*second=*/true});
    }
    gate_up_swiglu(team, gate, input, up, *up_input, layer.gate_bias, layer.up_bias, mlp);
  }
  team.sync();  // all of mlp written; no member reads x or the packed input any more
  add_product(team, peers, layer.down, mlp, layer.down_bias, buffers_.mlp_partial(num_rows),
              hidden(num_rows));
}

KvSelectionCall CpuShard::selection_call(const ForwardChunk& chunk, const KvSelection& selection,
                                         bool narrows) const {
  int32_t first = selection.first_row - chunk.first_row;
  if (narrows) {
    // Observers want logits, so they are adjacent in `wanted` as well.
    const auto found = std::lower_bound(chunk.wanted.begin(), chunk.wanted.end(), first);
    first = static_cast<int32_t>(found - chunk.wanted.begin());
  }
  const ForwardChunk::Rows& rows = narrows ? chunk.wanted_rows : chunk.rows;
  const MatrixView<float> q = buffers_.q(static_cast<int64_t>(rows.size()));
  const StepSequence& sequence = chunk.sequences[static_cast<size_t>(selection.sequence_idx)];
  return {.queries = {q.row(first), {selection.num_rows, q.dim(1)}},
          .block_table = sequence.block_table,
          .first_weighed = selection.first_weighed,
          .weighed_step = selection.weighed_step,
          .tokens = selection.tokens,
          .chosen = selection.chosen,
          .pooling = selection.pooling,
          .blocks = selection.blocks,
          .index = {.blocks = selection.index_blocks, .tokens = selection.indexed}};
}

// Runs the attention part of a layer. Rows without logits write their KV in the last layer and stop
// there: with `narrows`, x holds only the rows with logits after this layer.
void CpuShard::run_attention(const Team& team, const ForwardChunk& chunk, int32_t layer_idx,
                             bool narrows) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(layer_idx)];
  const PagedKv kv = kv_.layer(layer_idx);
  const auto num_rows = static_cast<int64_t>(chunk.rows.size());
  const ForwardChunk::Rows& q_rows = narrows ? chunk.wanted_rows : chunk.rows;
  const auto num_q = static_cast<int64_t>(q_rows.size());
  const bool has_heads = part_.heads.size() > 0;

  const LinearInput* input = nullptr;
  std::span<const int32_t> order = layer.k.input_order();
  if (has_heads) {
    input = &pack_attention_input(team, num_rows, layer,
                                  {formats_of(layer.q, layer.k, layer.v), order});
    linear(team, layer.k, *input, buffers_.k(num_rows), {layer.k_bias});
    input = &repack_if_needed(team, num_rows, layer, layer.v, *input, order);
    linear(team, layer.v, *input, buffers_.v(num_rows), {layer.v_bias});
  }
  if (narrows) {
    team.sync();  // no member reads x or the packed input any more
    keep_wanted_rows(team, chunk);
    team.sync();  // x holds the wanted rows
    if (num_q > 0 && has_heads) {
      order = layer.q.input_order();
      input = &pack_attention_input(team, num_q, layer, {formats_of(layer.q), order});
    }
  }
  if (!has_heads) return;
  if (num_q > 0) {
    input = &repack_if_needed(team, num_q, layer, layer.q, *input, order);
    linear(team, layer.q, *input, buffers_.own_heads(buffers_.q(num_q)), {layer.q_bias});
  }
  team.sync();  // q, k, v complete
  rotate_and_append(team, layer, kv, chunk.rows, q_rows);
  team.sync();  // q rotated, K and V of all rows in the cache
  if (num_q == 0) return;
  for (const KvSelection& selection : chunk.selections) {
    select_kv(team, selection_call(chunk, selection, narrows), kv, &selection_scratch_);
    team.sync();  // chosen KV is in the cache, and the scratch is free
  }
  attention(team, buffers_.q(num_q), q_rows.attend, kv,
            config_.sliding_window[static_cast<size_t>(layers_.begin + layer_idx)],
            narrows ? wanted_plan_ : plan_, &attention_scratch_, buffers_.attended(num_q));
  team.sync();  // attended complete
}

void CpuShard::run_layer(const Team& team, Collectives& peers, const ForwardChunk& chunk,
                         int32_t layer_idx) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(layer_idx)];
  const auto num_rows = static_cast<int64_t>(chunk.rows.size());
  const auto num_wanted = static_cast<int64_t>(chunk.wanted.size());
  const bool narrows = layer_idx + 1 == layers_.size() && narrows_last_layer(chunk);
  const int64_t num_q = narrows ? num_wanted : num_rows;
  run_attention(team, chunk, layer_idx, narrows);
  if (num_q == 0) return;
  add_product(team, peers, layer.o, buffers_.own_heads(buffers_.attended(num_q)), layer.o_bias,
              buffers_.attention_partial(num_q), hidden(num_q));
  run_mlp(team, peers, layer, num_q);
}

bool CpuShard::narrows_last_layer(const ForwardChunk& chunk) const {
  return layers_.heads && !chunk.keeps_all_rows && chunk.wanted.size() < chunk.rows.size();
}

// Every member reads only columns that it alone may overwrite next (keep_wanted_rows), or that no
// member overwrites before the next barrier.
void CpuShard::keep_taps(const Team& team, const ForwardChunk& chunk, int32_t after_layers) {
  TapStore& store = *chunk.tap_store;
  const WorkRange columns = team.share(config_.hidden_size, 16);
  const bool narrowed = after_layers == config_.num_layers && narrows_last_layer(chunk);
  for (size_t tap_idx = 0; tap_idx < store.after_layers().size(); ++tap_idx) {
    if (store.after_layers()[tap_idx] != after_layers) continue;
    for (const StepTap& tap : chunk.taps) {
      int64_t row = tap.row - chunk.first_row;
      if (narrowed) {
        row =
            std::lower_bound(chunk.wanted.begin(), chunk.wanted.end(), row) - chunk.wanted.begin();
      }
      const float* const x = hidden(row + 1).row(row);
      std::byte* const to = store.tap(tap.place, tap_idx);
      if (rounds()) {
        // Rounding again changes nothing, because every addition has rounded to the type.
        std::transform(x + columns.begin, x + columns.end,
                       reinterpret_cast<bf16*>(to) + columns.begin, to_bf16);
      } else {
        std::copy(x + columns.begin, x + columns.end, reinterpret_cast<float*>(to) + columns.begin);
      }
    }
  }
}

void CpuShard::run_head(const Team& team, const ForwardChunk& chunk) {
  const auto num_wanted = static_cast<int64_t>(chunk.wanted.size());
  const int64_t width = weights_.head.out_features();
  if (num_wanted == 0 || width == 0) return;
  const LinearInput& input =
      pack_normalized(team, num_wanted, weights_.final_norm,
                      {formats_of(weights_.head), weights_.head.input_order()});
  const bool spreads = !draft_tokens_.empty();
  float* const to = spreads ? draft_logits_.get() : logits_.get() + chunk.first_logits_row * width;
  linear(team, weights_.head, input, {to, {num_wanted, width}});
  if (!spreads) return;
  team.sync();  // the logits of the draft's tokens are complete
  spread_logits(team, chunk);
}

void CpuShard::spread_logits(const Team& team, const ForwardChunk& chunk) {
  const auto num_drafts = static_cast<int64_t>(draft_tokens_.size());
  const WorkRange drafts = team.share(num_drafts);
  for (int64_t row = 0; row < static_cast<int64_t>(chunk.wanted.size()); ++row) {
    const float* const from = draft_logits_.get() + row * num_drafts;
    float* const to = logits_.get() + (chunk.first_logits_row + row) * logits_width();
    for (int64_t draft = drafts.begin; draft < drafts.end; ++draft) {
      const int32_t token = draft_tokens_[static_cast<size_t>(draft)];
      if (token < live_vocab_) to[token] = from[draft];
    }
  }
}

void CpuShard::read_features(const ForwardChunk& chunk, int64_t begin, int64_t end) {
  const Eagle3Config& head = *config_.eagle3;
  const std::span<const float> norms = weights_.tap_norms;
  const size_t norm_width =
      head.norm_of_taps == Eagle3Config::NormOfTaps::kEach ? norms.size() / 3 : norms.size();
  int64_t taps = 0;
  for (int64_t row = 0; row < end; ++row) {
    const StepFeature& feature = chunk.features[static_cast<size_t>(row)];
    const int64_t tap_row = taps;
    taps += feature.is_own ? 0 : 1;
    if (row < begin) continue;
    if (feature.is_own) {
      float* const x = hidden(row + 1).row(row);
      widen_place(*chunk.tap_store, feature.place, x);
      if (!head.feeds_back_normalized) continue;
      rms_norm_row(x, weights_.final_norm, config_.rms_norm_eps, x);
    } else {
      float* const to = buffers_.taps(tap_row + 1).row(tap_row);
      widen_place(*target_taps_, feature.place, to);
      for (size_t first = 0; first < norms.size(); first += norm_width) {
        rms_norm_row(to + first, norms.subspan(first, norm_width), config_.rms_norm_eps,
                     to + first);
      }
    }
  }
}

void CpuShard::begin_with_features(const Team& team, const ForwardChunk& chunk) {
  const LayerWeights& layer = weights_.layers.front();
  const int64_t width = config_.hidden_size;
  const auto num_rows = static_cast<int64_t>(chunk.rows.size());
  const WorkRange rows = team.share(num_rows);
  const MatrixView<float> x = hidden(num_rows);
  const MatrixView<float> joined = buffers_.joined(num_rows);
  read_features(chunk, rows.begin, rows.end);
  embedding(team, weights_.embedding, chunk.tokens, rounds(),
            {joined.data(), {num_rows, width}, joined.outer_stride()});
  team.sync();  // all features and embeddings have been read
  const auto num_taps = static_cast<int64_t>(
      std::count_if(chunk.features.begin(), chunk.features.end(),
                    [](const StepFeature& feature) { return !feature.is_own; }));
  const MatrixView<float> projected = buffers_.normalized(num_taps);
  if (num_taps > 0) {
    const LinearWeight& weight = weights_.tap_projection;
    linear(team, weight,
           pack(team, buffers_.taps(num_taps), {formats_of(weight), weight.input_order()}),
           projected);
    team.sync();  // all taps are projected
  }
  const auto to_stream = [this](float value) { return rounds() ? round_to_bf16(value) : value; };
  int64_t taps = 0;
  for (int64_t row = 0; row < rows.end; ++row) {
    const bool is_own = chunk.features[static_cast<size_t>(row)].is_own;
    const float* const feature = is_own ? x.row(row) : projected.row(taps++);
    if (row < rows.begin) continue;
    std::transform(feature, feature + width, x.row(row), to_stream);
    float* const left = joined.row(row);
    rms_norm_row(left, layer.input_norm, config_.rms_norm_eps, left);
    rms_norm_row(x.row(row), layer.hidden_norm, config_.rms_norm_eps, left + width);
    if (!config_.eagle3->norm_before_residual) continue;
    std::transform(left + width, left + 2 * width, x.row(row), to_stream);
  }
}

void CpuShard::read_hidden(const Team& team, const ForwardChunk& chunk) {
  const MatrixView<float> x = hidden(static_cast<int64_t>(chunk.rows.size()));
  if (rounds()) {
    convert_share(team, x.size(), reinterpret_cast<const bf16*>(chunk.hidden_in), x.data(),
                  [](bf16 value) { return to_float(value); });
  } else {
    convert_share(team, x.size(), reinterpret_cast<const float*>(chunk.hidden_in), x.data(),
                  std::identity());
  }
}

// Rounding again changes nothing, because every addition has rounded to the type.
void CpuShard::write_hidden(const Team& team, const ForwardChunk& chunk) {
  const MatrixView<const float> x = hidden(static_cast<int64_t>(chunk.rows.size()));
  if (rounds()) {
    convert_share(team, x.size(), x.data(), reinterpret_cast<bf16*>(chunk.hidden_out), to_bf16);
  } else {
    convert_share(team, x.size(), x.data(), reinterpret_cast<float*>(chunk.hidden_out),
                  std::identity());
  }
}

void CpuShard::run(const Team& team, Collectives& peers, const ForwardChunk& chunk) {
  if (config_.eagle3) {
    begin_with_features(team, chunk);
  } else if (layers_.embeds) {
    embedding(team, weights_.embedding, chunk.tokens, rounds(),
              hidden(static_cast<int64_t>(chunk.rows.size())));
  } else {
    read_hidden(team, chunk);
  }
  team.sync();  // x complete
  // All devices have the same x.
  const bool taps = !chunk.taps.empty() && peers.rank() == 0;
  if (taps && layers_.embeds) keep_taps(team, chunk, 0);
  for (int32_t layer_idx = 0; layer_idx < layers_.size(); ++layer_idx) {
    run_layer(team, peers, chunk, layer_idx);
    if (taps) keep_taps(team, chunk, layers_.begin + layer_idx + 1);
  }
  if (layers_.heads && chunk.keeps_all_rows && !chunk.wanted.empty()) {
    keep_wanted_rows(team, chunk);
    team.sync();  // x holds the wanted rows
  }
  if (layers_.heads) {
    run_head(team, chunk);
  } else if (peers.rank() == 0) {  // all devices have the same hidden rows
    write_hidden(team, chunk);
  }
}

}  // namespace forerun
