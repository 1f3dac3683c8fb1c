#include "model/reference_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

namespace forerun {
namespace {

using Vector = std::vector<double>;

Vector read_tensor(const Checkpoint& checkpoint, const std::string& name) {
  const RawTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return {};
  Vector values(tensor->bytes.size() / dtype_bytes(tensor->dtype));
  for (size_t index = 0; index < values.size(); ++index) {
    const std::byte* from = tensor->bytes.data() + index * dtype_bytes(tensor->dtype);
    if (tensor->dtype == DType::kF32) {
      float value;
      std::memcpy(&value, from, sizeof(value));
      values[index] = value;
    } else {
      uint16_t bits;
      std::memcpy(&bits, from, sizeof(bits));
      values[index] = tensor->dtype == DType::kBf16 ? to_float(bf16{bits}) : to_float(f16{bits});
    }
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
  const auto part = [&](const std::string& name) {
    return read_tensor(checkpoint, "model.layers." + std::to_string(layer_idx) + "." + name);
  };
  Layer layer;
  layer.wq = part("self_attn.q_proj.weight");
  layer.wk = part("self_attn.k_proj.weight");
  layer.wv = part("self_attn.v_proj.weight");
  layer.wo = part("self_attn.o_proj.weight");
  layer.bq = part("self_attn.q_proj.bias");
  layer.bk = part("self_attn.k_proj.bias");
  layer.bv = part("self_attn.v_proj.bias");
  layer.bo = part("self_attn.o_proj.bias");
  layer.gate = part("mlp.gate_proj.weight");
  layer.up = part("mlp.up_proj.weight");
  layer.down = part("mlp.down_proj.weight");
  layer.bgate = part("mlp.gate_proj.bias");
  layer.bup = part("mlp.up_proj.bias");
  layer.bdown = part("mlp.down_proj.bias");
  layer.norm1 = part("input_layernorm.weight");
  layer.norm2 = part("post_attention_layernorm.weight");
  layer.qn = part("self_attn.q_norm.weight");
  layer.kn = part("self_attn.k_norm.weight");
  return layer;
}

// Attention of the newest of `keys` positions.
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

}  // namespace

std::vector<double> reference_logits(const Checkpoint& checkpoint, std::span<const int32_t> tokens,
                                     UnseenPositions unseen) {
  const ModelConfig& config = checkpoint.config();
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const double eps = config.rms_norm_eps;
  const Vector embedding = read_tensor(checkpoint, "model.embed_tokens.weight");
  const Vector head =
      config.tied_embeddings ? embedding : read_tensor(checkpoint, "lm_head.weight");
  const Vector final_norm = read_tensor(checkpoint, "model.norm.weight");

  std::vector<Vector> rows;
  for (const int32_t token : tokens) {
    const auto begin = embedding.begin() + static_cast<int64_t>(token) * config.hidden_size;
    rows.emplace_back(begin, begin + config.hidden_size);
  }
  for (size_t layer_idx = 0; layer_idx < static_cast<size_t>(config.num_layers); ++layer_idx) {
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
  std::vector<double> logits;
  for (Vector& row : rows) {
    normalize(row.data(), hidden, final_norm, eps);
    const Vector part = multiply(head, row, {});
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

}  // namespace forerun
