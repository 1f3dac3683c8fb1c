#include "support/induction_model.h"

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr int32_t kVocab = kFillerTokens + kTopicTokens;
constexpr int32_t kHidden = 128;
constexpr int32_t kHeadDim = 64;
constexpr int32_t kPairs = kHeadDim / 2;
// RoPE turns the pairs of a head by 1, 0.49, 0.24, ... rad a token. The pairs from this one on turn
// by less than 1e-4 and so compare content, not position.
constexpr int32_t kFirstStillPair = 13;
constexpr float kRopeTheta = 1e10f;
constexpr int32_t kWidth = 2 * (kPairs - kFirstStillPair);  // width of a token's vector
// Parts of the residual stream: the token, the one before it, what is to be said, and a constant.
constexpr int32_t kToken = 0;
constexpr int32_t kBefore = kWidth;
constexpr int32_t kSaid = 2 * kWidth;
constexpr int32_t kConstant = 3 * kWidth;
static_assert(kConstant < kHidden);
// The factor of a norm whose input consists of `parts` vectors of length 1.
float normed(int32_t parts) {
  return std::sqrt(static_cast<float>(kHidden) / static_cast<float>(parts));
}

constexpr float kPlaceScore = 30.0f;  // a pair's part of the score of the token before
constexpr float kTokenScore = 60.0f;  // score of the same token
constexpr float kTopicShare = 0.35f;  // share of that score for another token of its topic
constexpr float kLogitScale = 16.0f;

using Matrix = std::span<float>;

float& at(Matrix matrix, int32_t row, int32_t column) {
  return matrix[static_cast<size_t>(row * kHidden + column)];
}

// Dimension of a token's vector -> of a head: both of each pair that stands still.
int32_t still_dim(int32_t dim) {
  const int32_t pairs = kPairs - kFirstStillPair;
  return dim < pairs ? kFirstStillPair + dim : kPairs + kFirstStillPair + dim - pairs;
}

void normalize(std::vector<float>& vector) {
  float sum = 0.0f;
  for (const float value : vector) sum += value * value;
  for (float& value : vector) value /= std::sqrt(sum);
}

std::vector<float> unit_vector(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> vector(kWidth);
  for (float& value : vector) value = normal(random);
  normalize(vector);
  return vector;
}

std::vector<std::vector<float>> token_vectors() {
  std::mt19937 random(5);
  const std::vector<float> topic = unit_vector(random);
  std::vector<std::vector<float>> vectors;
  for (int32_t token = 0; token < kVocab; ++token) {
    std::vector<float>& vector = vectors.emplace_back(unit_vector(random));
    if (token < kFillerTokens) continue;
    for (int32_t dim = 0; dim < kWidth; ++dim) {
      const auto idx = static_cast<size_t>(dim);
      vector[idx] = std::sqrt(kTopicShare) * topic[idx] + std::sqrt(1 - kTopicShare) * vector[idx];
    }
    normalize(vector);  // else the longest is found in place of itself
  }
  return vectors;
}

void write_weights(std::map<std::string, std::vector<float>>& tensors) {
  const auto matrix = [&](const std::string& name) { return Matrix(tensors.at(name + ".weight")); };
  const std::vector<std::vector<float>> vectors = token_vectors();
  for (int32_t token = 0; token < kVocab; ++token) {
    for (int32_t dim = 0; dim < kWidth; ++dim) {
      const float value = vectors[static_cast<size_t>(token)][static_cast<size_t>(dim)];
      at(matrix("model.embed_tokens"), token, kToken + dim) = value;
      at(matrix("lm_head"), token, kSaid + dim) = kLogitScale * value / normed(4);
    }
    at(matrix("model.embed_tokens"), token, kConstant) = 1.0f;
  }
  const float root = std::sqrt(static_cast<float>(kHeadDim));
  // The query is rotated by one token less than its row, so its score is highest for the key of the
  // token before.
  const std::string first = "model.layers.0.self_attn.";
  const float place = std::sqrt(kPlaceScore * root) / normed(2);
  for (int32_t pair = 0; pair < kFirstStillPair; ++pair) {
    const float turn = std::pow(kRopeTheta, -static_cast<float>(pair) / kPairs);
    at(matrix(first + "q_proj"), pair, kConstant) = place * std::cos(turn);
    at(matrix(first + "q_proj"), kPairs + pair, kConstant) = -place * std::sin(turn);
    at(matrix(first + "k_proj"), pair, kConstant) = place;
  }
  const std::string second = "model.layers.1.self_attn.";
  const float content = std::sqrt(kTokenScore * root) / normed(3);
  for (int32_t dim = 0; dim < kWidth; ++dim) {
    at(matrix(first + "v_proj"), dim, kToken + dim) = 1.0f / normed(2);
    tensors.at(first + "o_proj.weight")[static_cast<size_t>((kBefore + dim) * kHeadDim + dim)] =
        1.0f;
    at(matrix(second + "q_proj"), still_dim(dim), kToken + dim) = content;
    at(matrix(second + "k_proj"), still_dim(dim), kBefore + dim) = content;
    at(matrix(second + "v_proj"), dim, kToken + dim) = 1.0f / normed(3);
    tensors.at(second + "o_proj.weight")[static_cast<size_t>((kSaid + dim) * kHeadDim + dim)] =
        1.0f;
  }
}

}  // namespace

Status write_induction_model(const std::filesystem::path& dir) {
  ToySpec spec;
  spec.num_layers = 2;
  spec.hidden_size = kHidden;
  spec.intermediate_size = 64;
  spec.num_heads = spec.num_kv_heads = 1;
  spec.head_dim = kHeadDim;
  spec.vocab_size = kVocab;
  spec.max_position = 4096;
  spec.rope_theta = kRopeTheta;
  FORERUN_RETURN_IF_ERROR(write_toy_model(dir, spec));
  std::vector<StoredTensor> stored = toy_tensors(spec);
  std::map<std::string, std::vector<float>> tensors;
  for (const StoredTensor& tensor : stored) {
    const bool is_norm = tensor.name.find("norm") != std::string::npos;
    tensors[tensor.name].assign(tensor.bytes.size() / sizeof(float), is_norm ? 1.0f : 0.0f);
  }
  write_weights(tensors);
  for (StoredTensor& tensor : stored) {
    std::memcpy(tensor.bytes.data(), tensors.at(tensor.name).data(), tensor.bytes.size());
  }
  return write_safetensors(dir / "model.safetensors", stored);
}

}  // namespace forerun::testing
