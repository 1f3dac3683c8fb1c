#include "checkpoint/gguf/toy_gguf.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/noise.h"
#include "checkpoint/modules.h"

namespace forerun {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kI64 = 27;

// The offsets of a block's scales, and the size of a weight for a scale of 1.
struct BlockScales {
  BlockFormat format;
  int64_t d;           // offset of the f16, or of MXFP4's exponent
  int64_t dmin;        // -1 if there is none
  float deviation;     // standard deviation of the weights for d = 1
  float min_of_scale;  // dmin / d for weights around 0
};

constexpr BlockScales kScales[] = {
    {BlockFormat::kQ4_0, 0, -1, 4.6f, 0},      {BlockFormat::kQ4_1, 0, 2, 4.6f, -7.5f},
    {BlockFormat::kQ5_0, 0, -1, 9.2f, 0},      {BlockFormat::kQ5_1, 0, 2, 9.2f, -15.5f},
    {BlockFormat::kQ8_0, 0, -1, 74.0f, 0},     {BlockFormat::kQ2_K, 80, 82, 13.0f, 1.5f},
    {BlockFormat::kQ3_K, 108, -1, 42.0f, 0},   {BlockFormat::kQ4_K, 0, 2, 260.0f, 7.5f},
    {BlockFormat::kQ5_K, 0, 2, 530.0f, 15.5f}, {BlockFormat::kQ6_K, 208, -1, 1400.0f, 0},
    {BlockFormat::kIq4Nl, 0, -1, 70.0f, 0},    {BlockFormat::kIq4Xs, 0, -1, 1300.0f, 0},
    {BlockFormat::kMxfp4, 0, -1, 6.0f, 0},
};

const BlockScales& scales_of(BlockFormat format) {
  for (const BlockScales& each : kScales) {
    if (each.format == format) return each;
  }
  return kScales[0];
}

uint64_t key_of(uint64_t seed, std::string_view name) {
  uint64_t key = seed * 0x9e3779b97f4a7c15u;
  for (const char c : name) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return key;
}

void put_f16(char* to, float value) {
  const uint16_t bits = to_f16(value).bits;
  std::memcpy(to, &bits, sizeof bits);
}

std::string random_blocks(const ToySpec& spec, const StoredTensor& tensor, BlockFormat format) {
  const BlockFormatInfo& blocks = block_format(format);
  const BlockScales& scales = scales_of(format);
  const int64_t count = tensor.shape[0] * tensor.shape[1] / blocks.weights;
  const float d = 1.0f / (std::sqrt(static_cast<float>(tensor.shape[1])) * scales.deviation);
  std::string bytes(static_cast<size_t>(count * blocks.bytes), '\0');
  const uint64_t own = key_of(spec.seed, tensor.name);
  const uint64_t other = key_of(spec.perturbation_seed, tensor.name);
  for (int64_t block = 0; block < count; ++block) {
    const auto bits = [&](uint64_t key, int64_t index) {
      return noise_bits(key, NoiseStream::kTarget, static_cast<int32_t>(block),
                        static_cast<uint32_t>(index));
    };
    const bool is_new = 4.0f * noise_uniform(bits(other, -1)) < spec.perturbation;
    char* const to = bytes.data() + block * blocks.bytes;
    for (int64_t index = 0; index < blocks.bytes; ++index) {
      to[index] = static_cast<char>(bits(is_new ? other : own, index) & 255u);
    }
    if (format == BlockFormat::kMxfp4) {
      to[0] = static_cast<char>(128 + std::lround(std::log2(d)));
      continue;
    }
    put_f16(to + scales.d, d);
    if (scales.dmin >= 0) put_f16(to + scales.dmin, d * scales.min_of_scale);
  }
  return bytes;
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Returns the rows of each head in the order 0, d/2, 1, d/2 + 1, ..., as llama.cpp's converter
// writes them.
std::vector<float> interleaved(const std::vector<float>& rows, int64_t width, int64_t head) {
  std::vector<float> out;
  const int64_t count = static_cast<int64_t>(rows.size()) / width;
  for (int64_t first = 0; first < count; first += head) {
    for (int64_t pair = 0; pair < head / 2; ++pair) {
      for (const int64_t row : {first + pair, first + pair + head / 2}) {
        out.insert(out.end(), rows.begin() + row * width, rows.begin() + (row + 1) * width);
      }
    }
  }
  return out;
}

void add_head_metadata(const ToySpec& spec, GgufRig& rig) {
  const Eagle3Config head = toy_eagle3(spec);
  rig.array("eagle3.target_layers", head.tap_layers);
  rig.value("eagle3.target_hidden_size", static_cast<uint32_t>(head.target_hidden_size));
  rig.value("eagle3.vocab_size", static_cast<uint32_t>(spec.vocab_size));
  rig.value("eagle3.norm_before_residual", head.norm_before_residual);
  rig.value("eagle3.norm_before_fc", head.norm_of_taps == Eagle3Config::NormOfTaps::kTogether);
}

// Converts safetensors' distances to the tokens of the rows.
std::string tokens_of_rows(const StoredTensor& distances) {
  std::string bytes;
  for (int64_t row = 0; row < distances.shape[0]; ++row) {
    int64_t distance = 0;
    std::memcpy(&distance, distances.bytes.data() + row * 8, sizeof distance);
    bytes += gguf_bytes(row + distance);
  }
  return bytes;
}

void add_metadata(const ToySpec& spec, GgufRig& rig) {
  const std::string architecture = spec.eagle3 ? "eagle3" : spec.family;
  const std::string prefix = architecture + ".";
  const auto number = [&](const char* key, int32_t value) {
    rig.value(prefix + key, static_cast<uint32_t>(value));
  };
  rig.value("general.architecture", architecture);
  number("block_count", spec.num_layers);
  number("embedding_length", spec.hidden_size);
  number("feed_forward_length", spec.intermediate_size);
  number("attention.head_count", spec.num_heads);
  number("attention.head_count_kv", spec.num_kv_heads);
  number("context_length", spec.max_position);
  if (spec.head_dim) number("attention.key_length", *spec.head_dim);
  rig.value(prefix + "attention.layer_norm_rms_epsilon", spec.rms_norm_eps);
  rig.value(prefix + "rope.freq_base", spec.rope_theta);
  rig.value("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(spec.eos_token_ids.front()));
  if (spec.eagle3) add_head_metadata(spec, rig);
}

// Adds the prefix that toy_tensors() omits from a head's names.
std::string whole_name(const ToySpec& spec, const std::string& name) {
  constexpr std::string_view kMidlayer = "midlayer.";
  if (!spec.eagle3 || name == "lm_head.weight") return name;
  if (!name.starts_with(kMidlayer)) return "model." + name;
  return "model.layers.0." + name.substr(kMidlayer.size());
}

}  // namespace

GgufRig toy_gguf(const ToySpec& spec) {
  const std::vector<BlockFormat>& formats = spec.gguf_formats;
  GgufRig rig;
  add_metadata(spec, rig);
  const int64_t head_dim = spec.head_dim.value_or(spec.hidden_size / spec.num_heads);
  size_t turn = 0;
  for (const StoredTensor& tensor : toy_tensors(spec)) {
    if (tensor.name == "d2t") {
      rig.tensor("d2t", kI64, {static_cast<uint64_t>(tensor.shape[0])}, tokens_of_rows(tensor));
    }
    if (tensor.name == "d2t" || tensor.name == "t2d") continue;
    const std::string whole = whole_name(spec, tensor.name);
    const auto module = find_module(whole, ModuleNaming::kHuggingFace);
    const std::string name =
        module_name(module->id, ModuleNaming::kGguf) + "." + std::string(module->part);
    const std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    if (!formats.empty() && shape.size() == 2) {
      const BlockFormat format = formats[turn++ % formats.size()];
      rig.tensor(name, block_format(format).ggml_type, shape, random_blocks(spec, tensor, format));
      continue;
    }
    std::vector<float> values = floats_of(tensor);
    const bool is_rotated = module->id.kind == ModuleKind::kQ || module->id.kind == ModuleKind::kK;
    if (spec.family == "llama" && is_rotated) {
      values = interleaved(values, shape.size() == 2 ? tensor.shape[1] : 1, head_dim);
    }
    rig.tensor(name, kF32, shape, bytes_of(values));
  }
  return rig;
}

}  // namespace forerun
