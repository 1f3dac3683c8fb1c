// The layers of CpuDecoder's forward pass: collective functions that every member of the team runs.
// A comment at each barrier says what it waits for.
#include <algorithm>

#include "kernels/embedding/embedding.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "model/cpu_decoder.h"

namespace forerun {
namespace {

template <class... Weights>
WeightFormats formats_of(const Weights&... weights) {
  return (weight_formats(weights.format()) | ...);
}

}  // namespace

const LinearInput& CpuDecoder::pack(const Team& team, MatrixView<const float> x,
                                    WeightFormats formats) {
  if (x.dim(0) <= kMaxOwnRows) {
    const Team alone(0, 1, nullptr);
    LinearInput& own = buffers_.own_input(team.rank());
    own.pack(alone, x, activation_, formats);
    return own;
  }
  LinearInput& shared = buffers_.shared_input();
  shared.pack(team, x, activation_, formats);
  team.sync();  // all rows packed
  return shared;
}

const LinearInput& CpuDecoder::pack_normalized(const Team& team, int64_t num_rows,
                                               std::span<const float> weight,
                                               WeightFormats formats) {
  const MatrixView<const float> x = hidden(num_rows);
  if (num_rows <= kMaxOwnRows) {
    const MatrixView<float> own = buffers_.own_normalized(team.rank(), num_rows);
    rms_norm(Team(0, 1, nullptr), x, weight, config_.rms_norm_eps, own);
    return pack(team, own, formats);
  }
  const MatrixView<float> shared = buffers_.normalized(num_rows);
  rms_norm(team, x, weight, config_.rms_norm_eps, shared);
  team.sync();  // all rows normalized
  return pack(team, shared, formats);
}

void CpuDecoder::keep_wanted_rows(const Team& team, int64_t num_rows) {
  // Members move columns of their own, so rows may slide over one another.
  const WorkRange columns = team.share(config_.hidden_size, 16);
  const MatrixView<float> x = hidden(num_rows);
  for (size_t to = 0; to < chunk_.wanted.size(); ++to) {
    const float* from = x.row(chunk_.wanted[to]);
    std::copy(from + columns.begin, from + columns.end,
              x.row(static_cast<int64_t>(to)) + columns.begin);
  }
}

void CpuDecoder::rotate_and_append(const Team& team, const LayerWeights& layer, const PagedKv& kv,
                                   std::span<const AttentionRow> kv_rows,
                                   std::span<const AttentionRow> q_rows) {
  const int64_t head_dim = config_.head_dim;
  const int64_t num_q = static_cast<int64_t>(q_rows.size()) * config_.num_heads;
  const int64_t num_kv = static_cast<int64_t>(kv_rows.size()) * config_.num_kv_heads;
  const auto finish = [&](float* head, const AttentionRow& row, std::span<const float> norm) {
    if (!norm.empty()) rms_norm_row(head, norm, config_.rms_norm_eps, head);
    rope_head(head, rope_.cosines(row.position), rope_.sines(row.position), head_dim / 2);
  };
  const WorkRange q_share = team.share(num_q);
  for (int64_t unit = q_share.begin; unit < q_share.end; ++unit) {
    const int64_t row_idx = unit / config_.num_heads;
    finish(buffers_.q(row_idx + 1).row(row_idx) + unit % config_.num_heads * head_dim,
           q_rows[static_cast<size_t>(row_idx)], layer.q_norm);
  }
  const WorkRange kv_share = team.share(num_kv);
  for (int64_t unit = kv_share.begin; unit < kv_share.end; ++unit) {
    const int64_t row_idx = unit / config_.num_kv_heads;
    const auto kv_head = static_cast<int32_t>(unit % config_.num_kv_heads);
    float* k = buffers_.k(row_idx + 1).row(row_idx);
    const AttentionRow& row = kv_rows[static_cast<size_t>(row_idx)];
    finish(k + kv_head * head_dim, row, layer.k_norm);
    append_kv_head(k, buffers_.v(row_idx + 1).row(row_idx), row, kv_head, kv);
  }
}

void CpuDecoder::run_mlp(const Team& team, const LayerWeights& layer, int64_t num_rows) {
  const LinearInput& input =
      pack_normalized(team, num_rows, layer.post_attention_norm, formats_of(layer.gate, layer.up));
  const MatrixView<float> mlp = buffers_.mlp(num_rows);
  gate_up_swiglu(team, layer.gate, layer.up, input, layer.gate_bias, layer.up_bias, mlp);
  team.sync();  // all of mlp written; nobody reads x or the packed input any more
  const MatrixView<float> x = hidden(num_rows);
  linear(team, layer.down, pack(team, mlp, formats_of(layer.down)), x,
         {layer.down_bias, x.data(), rounds()});
  team.sync();  // x complete
}

void CpuDecoder::run_layer(const Team& team, int32_t layer_idx) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(layer_idx)];
  const PagedKv kv = kv_.layer(layer_idx);
  const auto num_rows = static_cast<int64_t>(chunk_.rows.size());
  const auto num_wanted = static_cast<int64_t>(chunk_.wanted.size());
  // Rows that want nothing leave their KV in the last layer and go no further.
  const bool narrows = layer_idx + 1 == config_.num_layers && num_wanted < num_rows;
  const int64_t num_q = narrows ? num_wanted : num_rows;
  const std::span<const AttentionRow> q_rows = narrows ? chunk_.wanted_rows : chunk_.rows;

  const LinearInput* input =
      &pack_normalized(team, num_rows, layer.input_norm, formats_of(layer.q, layer.k, layer.v));
  linear(team, layer.k, *input, buffers_.k(num_rows), {layer.k_bias});
  linear(team, layer.v, *input, buffers_.v(num_rows), {layer.v_bias});
  if (narrows) {
    team.sync();  // nobody reads x or the packed input any more
    keep_wanted_rows(team, num_rows);
    team.sync();  // x holds the wanted rows
    if (num_q > 0) {
      input = &pack_normalized(team, num_q, layer.input_norm, formats_of(layer.q));
    }
  }
  if (num_q > 0) linear(team, layer.q, *input, buffers_.q(num_q), {layer.q_bias});
  team.sync();  // q, k, v complete
  rotate_and_append(team, layer, kv, chunk_.rows, q_rows);
  team.sync();  // q rotated, K and V of all rows in the cache
  if (num_q == 0) return;
  const MatrixView<float> attended = buffers_.attended(num_q);
  attention(team, buffers_.q(num_q), q_rows, kv,
            config_.sliding_window[static_cast<size_t>(layer_idx)],
            narrows ? chunk_.wanted_plan : chunk_.plan, &attention_scratch_, attended);
  team.sync();  // attended complete
  const MatrixView<float> x = hidden(num_q);
  linear(team, layer.o, pack(team, attended, formats_of(layer.o)), x,
         {layer.o_bias, x.data(), rounds()});
  team.sync();  // x complete
  run_mlp(team, layer, num_q);
}

void CpuDecoder::run_head(const Team& team) {
  const auto num_wanted = static_cast<int64_t>(chunk_.wanted.size());
  if (num_wanted == 0) return;
  const LinearInput& input =
      pack_normalized(team, num_wanted, weights_.final_norm, formats_of(weights_.head));
  const MatrixView<float> logits(logits_.get() + chunk_.first_logits_row * config_.vocab_size,
                                 {num_wanted, weights_.head.out_features()}, config_.vocab_size);
  linear(team, weights_.head, input, logits);
}

void CpuDecoder::run_chunk(const Team& team) {
  const auto num_rows = static_cast<int64_t>(chunk_.rows.size());
  embedding(team, weights_.embedding, chunk_.tokens, rounds(), hidden(num_rows));
  team.sync();  // x complete
  for (int32_t layer_idx = 0; layer_idx < config_.num_layers; ++layer_idx) {
    run_layer(team, layer_idx);
  }
  run_head(team);
}

}  // namespace forerun
