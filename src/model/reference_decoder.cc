#include "model/reference_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "checkpoint/float_tensor.h"

namespace forerun {
namespace {

using Vector = std::vector<double>;

Vector read_tensor(const RawTensor* tensor) {
  if (tensor == nullptr) return {};
  const int64_t width = tensor->shape.back();
  const int64_t rows = tensor->shape.size() == 2 ? tensor->shape[0] : 1;
  Vector values;
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t index = 0; index < rows; ++index) {
    widen(*tensor, index * width, width, row.data());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

Vector multiply(const Vector& w, const Vector& x, const Vector& bias) {
  const size_t in = x.size();
  const size_t out = w.size() / in;
  Vector y(out, 0.0);
  for (size_t row = 0; row < out; ++row) {
    for (size_t column = 0; column < in; ++column) y[row] += w[row * in + column] * x[column];
    if (!bias.empty()) y[row] += bias[row];
  }
  return y;
}

void normalize(double* x, size_t dim, const Vector& weight, double eps) {
  double mean = 0.0;
  for (size_t index = 0; index < dim; ++index) mean += x[index] * x[index];
  mean /= static_cast<double>(dim);
  for (size_t index = 0; index < dim; ++index) x[index] *= weight[index] / std::sqrt(mean + eps);
}

void rotate(double* head, const ModelConfig& config, size_t position) {
  const auto half = static_cast<size_t>(config.head_dim) / 2;
  double scaled = static_cast<double>(position);
  if (config.rope_scaling.kind == RopeScaling::Kind::kLinear) scaled /= config.rope_scaling.factor;
  for (size_t pair = 0; pair < half; ++pair) {
    const double angle = scaled * std::pow(config.rope_theta,
                                           -static_cast<double>(pair) / static_cast<double>(half));
    const double low = head[pair];
    const double high = head[pair + half];
    head[pair] = low * std::cos(angle) - high * std::sin(angle);
    head[pair + half] = high * std::cos(angle) + low * std::sin(angle);
  }
}

struct Layer {
  Vector wq, wk, wv, wo, bq, bk, bv, bo, gate, up, down, bgate, bup, bdown, norm1, norm2, qn, kn;
};

Layer read_layer(const Checkpoint& checkpoint, size_t layer_idx) {
  const auto index = static_cast<int32_t>(layer_idx);
  const auto weight = [&](ModuleKind kind) {
    return read_tensor(checkpoint.weight({kind, index}));
  };
  const auto bias = [&](ModuleKind kind) { return read_tensor(checkpoint.bias({kind, index})); };
  Layer layer;
  layer.wq = weight(ModuleKind::kQ);
  layer.wk = weight(ModuleKind::kK);
  layer.wv = weight(ModuleKind::kV);
  layer.wo = weight(ModuleKind::kO);
  layer.gate = weight(ModuleKind::kGate);
  layer.up = weight(ModuleKind::kUp);
  layer.down = weight(ModuleKind::kDown);
  layer.norm1 = weight(ModuleKind::kInputNorm);
  layer.norm2 = weight(ModuleKind::kPostAttentionNorm);
  layer.qn = weight(ModuleKind::kQNorm);
  layer.kn = weight(ModuleKind::kKNorm);
  layer.bq = bias(ModuleKind::kQ);
  layer.bk = bias(ModuleKind::kK);
  layer.bv = bias(ModuleKind::kV);
  layer.bo = bias(ModuleKind::kO);
  layer.bgate = bias(ModuleKind::kGate);
  layer.bup = bias(ModuleKind::kUp);
  layer.bdown = bias(ModuleKind::kDown);
  return layer;
}

// Returns the attention output of the newest of `keys` positions.
Vector attend(const Vector& q, const std::vector<Vector>& keys, const std::vector<Vector>& values,
              const ModelConfig& config, int32_t window) {
  const auto dim = static_cast<size_t>(config.head_dim);
  const auto heads = static_cast<size_t>(config.num_heads);
  const size_t group = heads / static_cast<size_t>(config.num_kv_heads);
  const size_t count = keys.size();
  const size_t first =
      window > 0 && count > static_cast<size_t>(window) ? count - static_cast<size_t>(window) : 0;
  Vector out(heads * dim, 0.0);
  for (size_t head = 0; head < heads; ++head) {
    const size_t kv = head / group * dim;
    Vector weights(count, 0.0);
    double highest = -INFINITY;
    for (size_t position = first; position < count; ++position) {
      for (size_t index = 0; index < dim; ++index) {
        weights[position] += q[head * dim + index] * keys[position][kv + index];
      }
      weights[position] /= std::sqrt(static_cast<double>(dim));
      highest = std::max(highest, weights[position]);
    }
    double sum = 0.0;
    for (size_t position = first; position < count; ++position) {
      weights[position] = std::exp(weights[position] - highest);
      sum += weights[position];
    }
    for (size_t position = first; position < count; ++position) {
      for (size_t index = 0; index < dim; ++index) {
        out[head * dim + index] += weights[position] / sum * values[position][kv + index];
      }
    }
  }
  return out;
}

std::vector<Vector> without(std::vector<Vector> all, const UnseenPositions& unseen) {
  all.erase(all.begin() + static_cast<int64_t>(unseen.begin),
            all.begin() + static_cast<int64_t>(unseen.end));
  return all;
}

void add(Vector& to, const Vector& from) {
  for (size_t index = 0; index < to.size(); ++index) to[index] += from[index];
}

// Returns the hidden rows of `tokens` after the first `num_layers` layers.
std::vector<Vector> run_layers(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                               UnseenPositions unseen, int32_t num_layers) {
  const ModelConfig& config = checkpoint.config();
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const double eps = config.rms_norm_eps;
  const Vector embedding = read_tensor(checkpoint.weight({ModuleKind::kEmbedding}));
  std::vector<Vector> rows;
  for (const int32_t token : tokens) {
    const auto begin = embedding.begin() + static_cast<int64_t>(token) * config.hidden_size;
    rows.emplace_back(begin, begin + config.hidden_size);
  }
  for (size_t layer_idx = 0; layer_idx < static_cast<size_t>(num_layers); ++layer_idx) {
    const Layer layer = read_layer(checkpoint, layer_idx);
    std::vector<Vector> keys, values;
    for (size_t position = 0; position < rows.size(); ++position) {
      Vector x = rows[position];
      normalize(x.data(), hidden, layer.norm1, eps);
      Vector q = multiply(layer.wq, x, layer.bq);
      Vector k = multiply(layer.wk, x, layer.bk);
      values.push_back(multiply(layer.wv, x, layer.bv));
      for (size_t begin = 0; begin < q.size(); begin += head_dim) {
        if (!layer.qn.empty()) normalize(q.data() + begin, head_dim, layer.qn, eps);
        rotate(q.data() + begin, config, position);
      }
      for (size_t begin = 0; begin < k.size(); begin += head_dim) {
        if (!layer.kn.empty()) normalize(k.data() + begin, head_dim, layer.kn, eps);
        rotate(k.data() + begin, config, position);
      }
      keys.push_back(std::move(k));
      const bool skips = position >= unseen.row;
      add(rows[position], multiply(layer.wo,
                                   attend(q, skips ? without(keys, unseen) : keys,
                                          skips ? without(values, unseen) : values, config,
                                          config.sliding_window[layer_idx]),
                                   layer.bo));
    }
    for (Vector& row : rows) {
      Vector x = row;
      normalize(x.data(), hidden, layer.norm2, eps);
      Vector gate = multiply(layer.gate, x, layer.bgate);
      const Vector up = multiply(layer.up, x, layer.bup);
      for (size_t index = 0; index < gate.size(); ++index) {
        gate[index] = gate[index] / (1.0 + std::exp(-gate[index])) * up[index];
      }
      add(row, multiply(layer.down, gate, layer.bdown));
    }
  }
  return rows;
}

}  // namespace

std::vector<double> reference_hidden(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                                     int32_t after_layers) {
  std::vector<double> hidden;
  for (const Vector& row : run_layers(checkpoint, tokens, {}, after_layers)) {
    hidden.insert(hidden.end(), row.begin(), row.end());
  }
  return hidden;
}

std::vector<double> reference_logits(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                                     UnseenPositions unseen) {
  const ModelConfig& config = checkpoint.config();
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const double eps = config.rms_norm_eps;
  const Vector head = read_tensor(
      checkpoint.weight({config.tied_embeddings ? ModuleKind::kEmbedding : ModuleKind::kHead}));
  const Vector final_norm = read_tensor(checkpoint.weight({ModuleKind::kFinalNorm}));
  std::vector<double> logits;
  for (Vector& row : run_layers(checkpoint, tokens, unseen, config.num_layers)) {
    normalize(row.data(), hidden, final_norm, eps);
    const Vector part = multiply(head, row, {});
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

}  // namespace forerun
