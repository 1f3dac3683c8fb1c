// Every layout and option: small files written by formulas of this test, which pack bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_summary.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/layouts/name_pattern.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/modules.h"
#include "checkpoint/testing.h"

namespace forerun {
namespace {

enum class Packing { kGemm, kGemv, kGemvFast, kGptq, kPacked, kBytes, kFp8 };

struct LayoutCase {
  const char* name;
  Packing packing;
  int bits = 4;
  int64_t group = 64;      // 0: all inputs; kFp8: blocks of 128
  bool has_zeros = true;   // else the middle, in no tensor
  int added_zero = 0;      // GPTQ stores one less
  bool has_order = false;  // inputs dealt to groups at random
  const char* scale_dtype = "F16";
  const char* config;            // quantization_config
  int64_t scale_rank = 2;        // of one scale an output, or 0 and 1: one of the tensor
  const char* expected;          // name of the format
  bool has_byte_zeros = false;   // older compressed-tensors
  bool is_inverse_name = false;  // weight_scale_inv
};

uint32_t random_bits(uint64_t seed, int64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(index) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return static_cast<uint32_t>(x >> 32);
}

// A layer before it is packed.
struct TestLayer {
  int64_t out, in, group, groups;
  uint64_t seed;
  LayoutCase test;

  uint32_t quant(int64_t o, int64_t i) const {
    return random_bits(seed, o * in + i) & ((1u << test.bits) - 1u);
  }
  int zero(int64_t o, int64_t g) const {
    if (!test.has_zeros) return 1 << (test.bits - 1);
    // The convention that adds one reaches 2^bits.
    return static_cast<int>(random_bits(seed + 1, o * groups + g) & ((1u << test.bits) - 1u)) +
           test.added_zero;
  }
  float scale(int64_t o, int64_t g) const {
    const int64_t which = test.scale_rank < 2 ? 0 : o * groups + g;
    const float value =
        0.01f * (1.0f + static_cast<float>(random_bits(seed + 2, which) % 1000) / 500.0f);
    if (test.scale_dtype == std::string("F16")) return to_float(to_f16(value));
    return test.scale_dtype == std::string("BF16") ? round_to_bf16(value) : value;
  }
  // Groups of a sorted layer are dealt by a multiplier that has no factor in common with `in`.
  int64_t group_of(int64_t i) const { return (test.has_order ? (i * 7 + 3) % in : i) / group; }
  float value(int64_t o, int64_t i) const {
    if (test.packing == Packing::kFp8) {
      const uint32_t code = random_bits(seed, o * in + i) & 255u;
      const int exponent = static_cast<int>(code >> 3 & 15u),
                mantissa = static_cast<int>(code & 7u);
      double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      if (exponent == 15 && mantissa == 7) magnitude = std::numeric_limits<double>::quiet_NaN();
      const auto weight = static_cast<float>((code & 128u) != 0 ? -magnitude : magnitude);
      return weight * scale(test.group == 128 ? o / 128 : o, test.group == 128 ? i / 128 : 0);
    }
    const int64_t g = group_of(i);
    return static_cast<float>(static_cast<int>(quant(o, i)) - zero(o, g)) * scale(o, g);
  }
};

// A tensor that is written field by field.
class Writer {
 public:
  Writer(std::string name, const char* dtype, int bytes, std::vector<int64_t> shape)
      : bytes_(bytes) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    tensor = {std::move(name), dtype, std::move(shape),
              std::vector<std::byte>(static_cast<size_t>(count * bytes))};
  }
  // Sets bits [at, at + count) of element `index`, as a little-endian number.
  void put(int64_t index, int64_t at, int count, uint32_t value) {
    for (int bit = 0; bit < count; ++bit) {
      const int64_t place = index * bytes_ * 8 + at + bit;
      if ((value >> bit & 1u) != 0) {
        tensor.bytes[static_cast<size_t>(place / 8)] |= std::byte{1} << (place % 8);
      }
    }
  }
  void put_float(int64_t index, const std::string& dtype, float value) {
    if (dtype == "F16") return put(index, 0, 16, to_f16(value).bits);
    if (dtype == "BF16") return put(index, 0, 16, to_bf16(value).bits);
    put(index, 0, 32, std::bit_cast<uint32_t>(value));
  }
  StoredTensor tensor;

 private:
  int64_t bytes_;
};

int float_bytes(const char* dtype) { return dtype == std::string("F32") ? 4 : 2; }

// Where each of 32 inputs goes in AutoAWQ's pack_intweight: two reshapes with their transpositions.
std::vector<int64_t> fast_order() {
  std::vector<int64_t> first, second;
  for (int64_t b = 0; b < 4; ++b) {
    for (int64_t a = 0; a < 4; ++a) {
      for (int64_t c = 0; c < 2; ++c) first.push_back(a * 8 + b * 2 + c);
    }
  }
  for (size_t run = 0; run < 32; run += 8) {
    for (size_t y = 0; y < 2; ++y) {
      for (size_t x = 0; x < 4; ++x) second.push_back(first[run + x * 2 + y]);
    }
  }
  return second;  // place to input
}

void write_awq(const std::string& name, const TestLayer& layer, std::vector<StoredTensor>& to) {
  constexpr int kColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int64_t out = layer.out, in = layer.in;
  const char* const dtype = layer.test.scale_dtype;
  if (layer.test.packing == Packing::kGemm) {
    Writer q(name + ".qweight", "I32", 4, {in, out / 8});
    Writer z(name + ".qzeros", "I32", 4, {layer.groups, out / 8});
    Writer s(name + ".scales", dtype, float_bytes(dtype), {layer.groups, out});
    for (int64_t word = 0; word < out / 8; ++word) {
      for (int n = 0; n < 8; ++n) {
        const int64_t o = word * 8 + kColumns[n];
        for (int64_t i = 0; i < in; ++i) q.put(i * out / 8 + word, n * 4, 4, layer.quant(o, i));
        for (int64_t g = 0; g < layer.groups; ++g) {
          z.put(g * out / 8 + word, n * 4, 4, static_cast<uint32_t>(layer.zero(o, g)));
          s.put_float(g * out + o, dtype, layer.scale(o, g));
        }
      }
    }
    to.insert(to.end(), {q.tensor, z.tensor, s.tensor});
    return;
  }
  // AutoAWQ's calculate_zeros_width().
  const int64_t multiplier = layer.group == 64 ? 2 : layer.group == 32 ? 4 : 1;
  const int64_t words = ((layer.groups + 7) / 8 + multiplier - 1) / multiplier * multiplier;
  if (layer.test.packing == Packing::kGemv) {
    Writer q(name + ".qweight", "I32", 4, {out, in / 8});
    Writer z(name + ".qzeros", "I32", 4, {out, words});
    Writer s(name + ".scales", dtype, float_bytes(dtype), {out, words * 8});
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) q.put(o * in / 8, i * 4, 4, layer.quant(o, i));
      for (int64_t g = 0; g < layer.groups; ++g) {
        z.put(o * words, g * 4, 4, static_cast<uint32_t>(layer.zero(o, g)));
        s.put_float(o * words * 8 + g, dtype, layer.scale(o, g));
      }
    }
    to.insert(to.end(), {q.tensor, z.tensor, s.tensor});
    return;
  }
  const std::vector<int64_t> order = fast_order();
  Writer q(name + ".qweight", "I16", 2, {out / 4, in});
  Writer z(name + ".qzeros", "F16", 2, {words * 8, out});
  Writer s(name + ".scales", "F16", 2, {words * 8, out});
  for (int64_t rows = 0; rows < out / 4; ++rows) {
    std::vector<uint32_t> flat;  // [in / 64][4][64]
    for (int64_t chunk = 0; chunk < in / 64; ++chunk) {
      for (int64_t row = 0; row < 4; ++row) {
        for (int64_t k = 0; k < 64; ++k) {
          const int64_t i = chunk * 64 + k / 32 * 32 + order[static_cast<size_t>(k % 32)];
          flat.push_back(layer.quant(rows * 4 + row, i));
        }
      }
    }
    for (size_t at = 0; at < flat.size(); ++at) {
      q.put(rows * in + static_cast<int64_t>(at / 4), static_cast<int64_t>(at % 4 * 4), 4,
            flat[at]);
    }
  }
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t g = 0; g < layer.groups; ++g) {
      const float scale = layer.scale(o, g);
      s.put_float(g * out + o, "F16", scale);
      z.put_float(g * out + o, "F16", -(scale * static_cast<float>(layer.zero(o, g))));
    }
  }
  to.insert(to.end(), {q.tensor, z.tensor, s.tensor});
}

void write_gptq(const std::string& name, const TestLayer& layer, std::vector<StoredTensor>& to) {
  const int64_t out = layer.out, in = layer.in, per = 32 / layer.test.bits;
  const char* const dtype = layer.test.scale_dtype;
  Writer q(name + ".qweight", "I32", 4, {in / per, out});
  Writer z(name + ".qzeros", "I32", 4, {layer.groups, out / per});
  Writer s(name + ".scales", dtype, float_bytes(dtype), {layer.groups, out});
  Writer order(name + ".g_idx", "I32", 4, {in});
  const int bits = layer.test.bits;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      q.put(i / per * out + o, i % per * bits, bits, layer.quant(o, i));
    }
    for (int64_t g = 0; g < layer.groups; ++g) {
      z.put(g * out / per, o * bits, bits,
            static_cast<uint32_t>(layer.zero(o, g) - layer.test.added_zero));
      s.put_float(g * out + o, dtype, layer.scale(o, g));
    }
  }
  for (int64_t i = 0; i < in; ++i) order.put(i, 0, 32, static_cast<uint32_t>(layer.group_of(i)));
  // What AutoGPTQ gives layers without a bias.
  const Writer bias(name + ".bias", "F16", 2, {out});
  to.insert(to.end(), {q.tensor, z.tensor, s.tensor, order.tensor, bias.tensor});
}

void write_compressed(const std::string& name, const TestLayer& layer,
                      std::vector<StoredTensor>& to) {
  const int64_t out = layer.out, in = layer.in;
  const int bits = layer.test.bits;
  const char* const dtype = layer.test.scale_dtype;
  const bool is_packed = layer.test.packing == Packing::kPacked;
  std::vector<int64_t> scales = {out, layer.groups};
  if (layer.test.scale_rank == 1) scales = {1};
  Writer s(name + ".weight_scale", dtype, float_bytes(dtype), scales);
  const int64_t per = 32 / bits;
  const int64_t row_words = (in + per - 1) / per;
  Writer q = is_packed ? Writer(name + ".weight_packed", "I32", 4, {out, row_words})
                       : Writer(name + ".weight", "I8", 1, {out, in});
  const bool packs_zeros = is_packed && !layer.test.has_byte_zeros;
  Writer z = packs_zeros ? Writer(name + ".weight_zero_point", "I32", 4,
                                  {(out + per - 1) / per, layer.groups})
                         : Writer(name + ".weight_zero_point", "I8", 1, {out, layer.groups});
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      if (is_packed) {
        q.put(o * row_words, i * bits, bits, layer.quant(o, i));
      } else {
        q.put(o * in + i, 0, 8, layer.quant(o, i) - 128u);
      }
    }
    for (int64_t g = 0; g < layer.groups; ++g) {
      s.put_float(layer.test.scale_rank == 1 ? 0 : o * layer.groups + g, dtype, layer.scale(o, g));
      const auto zero = static_cast<uint32_t>(layer.zero(o, g));
      if (packs_zeros) {
        z.put(o / per * layer.groups + g, o % per * bits, bits, zero);
      } else {
        z.put(o * layer.groups + g, 0, 8, zero - (1u << (bits - 1)));
      }
    }
    if (layer.test.scale_rank == 1) break;
  }
  if (layer.test.scale_rank == 1) {
    for (int64_t o = 1; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) q.put(o * in + i, 0, 8, layer.quant(o, i) - 128u);
    }
  }
  to.insert(to.end(), {q.tensor, s.tensor});
  if (layer.test.has_zeros) to.push_back(z.tensor);
  Writer shape(name + ".weight_shape", "I64", 8, {2});
  shape.put(0, 0, 32, static_cast<uint32_t>(out));
  shape.put(1, 0, 32, static_cast<uint32_t>(in));
  if (is_packed) to.push_back(shape.tensor);
  Writer order(name + ".weight_g_idx", "I32", 4, {in});
  for (int64_t i = 0; i < in; ++i) order.put(i, 0, 32, static_cast<uint32_t>(layer.group_of(i)));
  if (layer.test.has_order) to.push_back(order.tensor);
}

void write_fp8(const std::string& name, const TestLayer& layer, std::vector<StoredTensor>& to) {
  const LayoutCase& test = layer.test;
  Writer q(name + ".weight", "F8_E4M3", 1, {layer.out, layer.in});
  for (int64_t at = 0; at < layer.out * layer.in; ++at) {
    q.put(at, 0, 8, random_bits(layer.seed, at) & 255u);
  }
  std::vector<int64_t> shape = {layer.out, 1};
  if (test.scale_rank == 0) shape = {};
  if (test.scale_rank == 1) shape = {1};
  const bool is_blocks = test.group == 128;
  if (is_blocks) shape = {(layer.out + 127) / 128, (layer.in + 127) / 128};
  Writer s(name + (test.is_inverse_name ? ".weight_scale_inv" : ".weight_scale"), test.scale_dtype,
           float_bytes(test.scale_dtype), shape);
  const int64_t rows = shape.size() == 2 ? shape[0] : 1;
  const int64_t columns = is_blocks ? shape[1] : 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      s.put_float(row * columns + column, test.scale_dtype, layer.scale(row, column));
    }
  }
  Writer input(name + ".input_scale", "F32", 4, {});
  input.put_float(0, "F32", 0.5f);
  to.insert(to.end(), {q.tensor, s.tensor, input.tensor});
}

ToySpec layout_spec() {
  ToySpec spec;  // 192 and 320: neither is a multiple of 128
  spec.hidden_size = 192;
  spec.intermediate_size = 320;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.vocab_size = 32;
  spec.num_layers = 1;
  return spec;
}

TestLayer test_layer(const LayoutCase& test, ModuleKind kind, int64_t out, int64_t in) {
  TestLayer layer{out, in, test.group, 1, 100 + static_cast<uint64_t>(kind) * 10, test};
  if (test.packing == Packing::kFp8) {
    layer.group = in;
    layer.groups = test.group == 128 ? (in + 127) / 128 : 1;
    return layer;
  }
  if (layer.group == 0) layer.group = in;
  layer.groups = in / layer.group;
  return layer;
}

constexpr ModuleKind kLinearKinds[] = {ModuleKind::kQ,   ModuleKind::kK,    ModuleKind::kV,
                                       ModuleKind::kO,   ModuleKind::kGate, ModuleKind::kUp,
                                       ModuleKind::kDown};

bool is_linear(ModuleKind kind) {
  for (const ModuleKind each : kLinearKinds) {
    if (each == kind) return true;
  }
  return false;
}

// The toy checkpoint with its linear layers in the layout of the case.
std::vector<StoredTensor> layout_tensors(const LayoutCase& test) {
  std::vector<StoredTensor> tensors;
  for (StoredTensor& plain : toy_tensors(layout_spec())) {
    const auto module = find_module(plain.name, ModuleNaming::kHuggingFace);
    if (!module || !is_linear(module->id.kind)) {
      tensors.push_back(std::move(plain));
      continue;
    }
    const TestLayer layer = test_layer(test, module->id.kind, plain.shape[0], plain.shape[1]);
    const std::string name = module_name(module->id, ModuleNaming::kHuggingFace);
    if (test.packing == Packing::kFp8) {
      write_fp8(name, layer, tensors);
    } else if (test.packing == Packing::kGptq) {
      write_gptq(name, layer, tensors);
    } else if (test.packing == Packing::kPacked || test.packing == Packing::kBytes) {
      write_compressed(name, layer, tensors);
    } else {
      write_awq(name, layer, tensors);
    }
  }
  return tensors;
}

std::string config_with(const std::string& quantization) {
  std::string config = toy_config_json(layout_spec());
  config.erase(config.rfind('}'));
  return config + ",\"quantization_config\":" + quantization + "}";
}

Result<Checkpoint> open_with(const TempDir& dir, const std::vector<StoredTensor>& tensors,
                             const std::string& quantization) {
  EXPECT_TRUE(write_text(dir.path() / "config.json", config_with(quantization)).ok());
  EXPECT_TRUE(write_safetensors(dir.path() / "model.safetensors", tensors).ok());
  return Checkpoint::open(dir.path());
}

// clang-format off
#define CT(format, weights) R"({"quant_method":"compressed-tensors","format":")" format \
  R"(","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{)" weights "}}}}"
const LayoutCase kCases[] = {
    {.name = "gemm", .packing = Packing::kGemm, .config = R"({"quant_method":"awq","bits":4,"group_size":64,"version":"gemm"})", .expected = "awq-int4"},
    {.name = "gemm_channel", .packing = Packing::kGemm, .group = 0, .scale_dtype = "BF16", .config = R"({"quant_method":"awq","bits":4,"group_size":-1})", .expected = "awq-int4"},
    {.name = "gemv", .packing = Packing::kGemv, .config = R"({"quant_method":"awq","group_size":64,"version":"GEMV"})", .expected = "awq-gemv-int4"},
    {.name = "gemv_32", .packing = Packing::kGemv, .group = 32, .config = R"({"quant_method":"awq","group_size":32,"version":"gemv"})", .expected = "awq-gemv-int4"},
    {.name = "gemv_fast", .packing = Packing::kGemvFast, .config = R"({"quant_method":"awq","group_size":64,"version":"gemv_fast"})", .expected = "awq-gemv-fast-int4"},
    {.name = "gptq", .packing = Packing::kGptq, .added_zero = 1, .config = R"({"quant_method":"gptq","bits":4,"group_size":64,"sym":false,"desc_act":false})", .expected = "gptq-int4"},
    {.name = "gptq_v2", .packing = Packing::kGptq, .group = 32, .config = R"({"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"gptq_v2"})", .expected = "gptq-int4"},
    {.name = "gptq_8", .packing = Packing::kGptq, .bits = 8, .group = 0, .added_zero = 1, .scale_dtype = "BF16", .config = R"({"quant_method":"gptq","bits":8,"group_size":-1})", .expected = "gptq-int8"},
    {.name = "gptq_sorted", .packing = Packing::kGptq, .group = 32, .added_zero = 1, .has_order = true, .config = R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true})", .expected = "gptq-int4"},
    {.name = "gptq_8_sorted", .packing = Packing::kGptq, .bits = 8, .has_order = true, .scale_dtype = "F32", .config = R"({"quant_method":"gptq","bits":8,"group_size":64,"desc_act":true,"format":"gptq_v2"})", .expected = "gptq-int8"},
    {.name = "packed", .packing = Packing::kPacked, .has_zeros = false, .scale_dtype = "BF16", .config = CT("pack-quantized", R"("num_bits":4,"strategy":"group","group_size":64)"), .expected = "ct-int4"},
    {.name = "packed_zeros", .packing = Packing::kPacked, .group = 32, .config = CT("pack-quantized", R"("num_bits":4,"group_size":32,"symmetric":false)"), .expected = "ct-int4"},
    {.name = "packed_byte_zeros", .packing = Packing::kPacked, .config = CT("pack-quantized", R"("num_bits":4,"group_size":64,"symmetric":false)"), .expected = "ct-int4", .has_byte_zeros = true},
    {.name = "packed_8_channel", .packing = Packing::kPacked, .bits = 8, .group = 0, .config = CT("pack-quantized", R"("num_bits":8,"strategy":"channel","symmetric":false)"), .expected = "ct-int8"},
    {.name = "packed_sorted", .packing = Packing::kPacked, .group = 32, .has_zeros = false, .has_order = true, .config = CT("pack-quantized", R"("num_bits":4,"group_size":32,"actorder":"group")"), .expected = "ct-int4"},
    {.name = "bytes", .packing = Packing::kBytes, .bits = 8, .group = 0, .has_zeros = false, .config = CT("int-quantized", R"("num_bits":8,"strategy":"channel"},"input_activations":{"num_bits":8,"dynamic":true)"), .expected = "ct-int8"},
    {.name = "bytes_zeros", .packing = Packing::kBytes, .bits = 8, .group = 0, .scale_dtype = "F32", .config = CT("naive-quantized", R"("num_bits":8,"strategy":"channel","symmetric":false)"), .expected = "ct-int8"},
    {.name = "bytes_tensor", .packing = Packing::kBytes, .bits = 8, .group = 0, .has_zeros = false, .config = CT("int-quantized", R"("num_bits":8,"strategy":"tensor")"), .scale_rank = 1, .expected = "ct-int8"},
    {.name = "float_channel", .packing = Packing::kFp8, .bits = 8, .group = 0, .scale_dtype = "BF16", .config = CT("float-quantized", R"("num_bits":8,"type":"float","strategy":"channel")"), .expected = "fp8"},
    {.name = "float_block", .packing = Packing::kFp8, .bits = 8, .group = 128, .scale_dtype = "BF16", .config = CT("naive-quantized", R"("num_bits":8,"type":"float","strategy":"block","block_structure":[128,128])"), .expected = "fp8"},
    {.name = "fp8_tensor", .packing = Packing::kFp8, .bits = 8, .group = 0, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","activation_scheme":"static"})", .scale_rank = 0, .expected = "fp8"},
    {.name = "fp8_tensor_1", .packing = Packing::kFp8, .bits = 8, .group = 0, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","ignored_layers":["lm_head"]})", .scale_rank = 1, .expected = "fp8"},
    {.name = "fp8_block", .packing = Packing::kFp8, .bits = 8, .group = 128, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]})", .expected = "fp8", .is_inverse_name = true},
};
// clang-format on

bool same(float left, float right) {
  return std::isnan(left) ? std::isnan(right)
                          : std::bit_cast<uint32_t>(left) == std::bit_cast<uint32_t>(right);
}

void expect_range(const TestLayer& layer, const RawTensor& tensor, int64_t out, int64_t first,
                  int64_t count) {
  std::vector<float> row(static_cast<size_t>(count));
  widen(tensor, out * layer.in + first, count, row.data());
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same(row[static_cast<size_t>(i)], layer.value(out, first + i)))
        << layer.test.name << " " << out << " " << first + i << ": " << row[static_cast<size_t>(i)]
        << " " << layer.value(out, first + i);
  }
}

// What a packer makes of the range.
void expect_integers(const TestLayer& layer, const WeightParts& parts, int64_t first_out,
                     int64_t last_out, int64_t first_in, int64_t last_in) {
  const auto range = parts.integers(first_out, last_out, first_in, last_in);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->bits, layer.test.bits);
  EXPECT_EQ(range->has_zeros, layer.test.has_zeros);
  EXPECT_EQ(range->order.empty(), !layer.test.has_order);
  ASSERT_EQ(range->ins % range->group, 0);
  std::vector<float> scales(static_cast<size_t>(range->groups()));
  std::vector<int16_t> zeros(scales.size());
  std::vector<uint8_t> quants(static_cast<size_t>(range->ins));
  for (int64_t out = 0; out < range->outs; ++out) {
    range->scales(out, scales.data());
    range->zeros(out, zeros.data());
    range->quants(out, 0, 5, quants.data());
    range->quants(out, 5, range->ins - 5, quants.data() + 5);
    for (int64_t i = 0; i < range->ins; ++i) {
      const auto group = static_cast<size_t>(i / range->group);
      const float value =
          static_cast<float>(int{quants[static_cast<size_t>(i)]} - zeros[group]) * scales[group];
      const int64_t in = range->order.empty() ? first_in + i : range->order[static_cast<size_t>(i)];
      ASSERT_TRUE(same(value, layer.value(first_out + out, in))) << layer.test.name;
    }
  }
}

class Layouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(Layouts, DecodesWhatTheFormulaSays) {
  const LayoutCase& test = GetParam();
  TempDir dir;
  const auto checkpoint = open_with(dir, layout_tensors(test), test.config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  for (const ModuleKind kind : kLinearKinds) {
    const RawTensor* const tensor = checkpoint->weight({kind, 0});
    ASSERT_NE(tensor, nullptr);
    ASSERT_NE(tensor->parts, nullptr);
    EXPECT_EQ(format_name(*tensor), test.expected);
    EXPECT_TRUE(check_readable(*tensor).ok());
    const TestLayer layer = test_layer(test, kind, tensor->shape[0], tensor->shape[1]);
    for (int64_t out = 0; out < layer.out; out += 3) {
      expect_range(layer, *tensor, out, 0, layer.in);
      expect_range(layer, *tensor, out, 29, 75);
      expect_range(layer, *tensor, out, layer.in - 1, 1);
    }
    const WeightParts& parts = *tensor->parts;
    int64_t bytes = 0;
    for (const ModuleTensor& part : checkpoint->tensors_of({kind, 0})) {
      if (!part.name.ends_with(".bias")) bytes += static_cast<int64_t>(part.tensor->bytes.size());
    }
    EXPECT_EQ(stored_bytes(*tensor), bytes);
    EXPECT_EQ(parts.awq_gemm().has_value(), test.packing == Packing::kGemm);
    if (test.packing == Packing::kFp8) {
      EXPECT_FALSE(parts.integers(0, 8, 0, layer.in).has_value());
      const auto floats = parts.floats();
      ASSERT_TRUE(floats.has_value());
      for (int64_t at = 0; at < layer.out * layer.in; at += 17) {
        const auto code = static_cast<uint8_t>(floats->codes->bytes[static_cast<size_t>(at)]);
        const int64_t out = at / layer.in, in = at % layer.in;
        ASSERT_TRUE(same(to_float(f8_e4m3{code}) * floats->scale(out, in), layer.value(out, in)));
      }
      continue;
    }
    EXPECT_FALSE(parts.floats().has_value());
    expect_integers(layer, parts, 0, layer.out, 0, layer.in);
    if (test.has_order) {
      EXPECT_FALSE(parts.integers(0, 8, 0, 32).has_value());
    } else {  // whole groups, cut groups, and a part of one group
      expect_integers(layer, parts, 5, 20, layer.in / 2 / 32 * 32, layer.in);
      expect_integers(layer, parts, 3, 4, 16, 112);
      expect_integers(layer, parts, 3, 4, 40, 56);
    }
  }
  const CheckpointSummary summary = summarize(*checkpoint);
  EXPECT_EQ(summary.by_precision.front().precision, test.expected);
  EXPECT_EQ(summary.by_precision.front().parameters, 192 * (192 * 2 + 96 * 2 + 320 * 3));
  EXPECT_EQ(stored_formats(checkpoint->config().quantization), test.expected);
}

std::string case_name(const testing::TestParamInfo<LayoutCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(kCases), case_name);

const LayoutCase& case_named(const std::string& name) {
  for (const LayoutCase& test : kCases) {
    if (test.name == name) return test;
  }
  ADD_FAILURE() << name;
  return kCases[0];
}

constexpr const char* kDown = "model.layers.0.mlp.down_proj";

struct BadFile {
  const char* layout;
  const char* suffix;  // of the part that is spoiled
  std::function<void(StoredTensor&)> spoil;
  std::vector<const char*> message;
};

TEST(BadLayouts, AreRefusedInOneLine) {
  const auto rename = [](StoredTensor& tensor) { tensor.name = "gone"; };
  const auto element_32 = [](int64_t index, int32_t value) {
    return [index, value](StoredTensor& tensor) {
      std::memcpy(tensor.bytes.data() + index * 4, &value, 4);
    };
  };
  const auto reshape = [](std::vector<int64_t> shape, const char* dtype) {
    return [shape, dtype](StoredTensor& tensor) {
      tensor.shape = shape;
      tensor.dtype = dtype;
    };
  };
  const BadFile files[] = {
      {"gptq", ".qweight", rename, {"down_proj.weight\": not found, nor", ".qweight"}},
      {"gptq", ".scales", rename, {".scales\": not found, though other parts"}},
      {"gptq", ".qzeros", reshape({5, 48}, "I16"), {".qzeros", "found i16; accepted: i32"}},
      {"gptq", ".qweight", reshape({20, 384}, "I32"), {".qweight", "shape [20][384]", "[40][192]"}},
      {"gptq", ".bias", element_32(0, 1), {".bias", "gives no place"}},
      {"gptq_sorted", ".g_idx", element_32(7, 10), {".g_idx", "group 10 at input 7", "0 to 9"}},
      {"gptq_sorted", ".g_idx", element_32(7, -5), {".g_idx", "group -5 at input 7"}},
      {"gptq_sorted", ".g_idx", element_32(0, 9), {".g_idx", "31 inputs in group 0", "32 inputs"}},
      {"gptq_sorted",
       ".g_idx",
       [](StoredTensor& tensor) { tensor.bytes.assign(tensor.bytes.size(), std::byte{0}); },
       {".g_idx", "320 inputs in group 0"}},
      {"gptq_sorted", ".g_idx", rename, {".g_idx\": not found, though other parts"}},
      {"packed",
       ".weight_shape",
       element_32(0, 193),
       {".weight_shape", "[193][320]", "[192][320]"}},
      {"packed", ".weight_shape", rename, {".weight_shape\": not found"}},
      {"packed_zeros", ".weight_zero_point", rename, {".weight_zero_point\": not found"}},
      {"packed",
       ".weight_scale",
       reshape({5, 192}, "BF16"),
       {"[5][192]", "[192][5]", "320 inputs"}},
      {"bytes",
       ".weight_scale",
       reshape({192}, "I16"),
       {".weight_scale", "found i16", "f16, bf16"}},
      {"fp8_block",
       ".weight_scale_inv",
       reshape({3, 2}, "F32"),
       {"[3][2]", "[2][3]", "blocks of 128"}},
      {"fp8_block", ".weight_scale_inv", rename, {".weight_scale\": not found"}},
      {"fp8_tensor", ".weight", reshape({192, 320}, "F8_E5M2"), {".weight", "F8_E5M2"}},
      {"gemv", ".qzeros", reshape({96, 4}, "I32"), {".qzeros", "[96][4]", "[192][2]"}},
  };
  for (const BadFile& file : files) {
    TempDir dir;
    const LayoutCase& test = case_named(file.layout);
    auto tensors = layout_tensors(test);
    bool is_found = false;
    for (StoredTensor& tensor : tensors) {
      if (tensor.name != std::string(kDown) + file.suffix) continue;
      file.spoil(tensor);
      is_found = true;
    }
    ASSERT_TRUE(is_found) << file.layout << file.suffix;
    const auto checkpoint = open_with(dir, tensors, test.config);
    ASSERT_FALSE(checkpoint.ok()) << file.layout << file.suffix;
    const std::string message = checkpoint.status().message();
    EXPECT_EQ(message.find('\n'), message.npos);
    for (const char* part : file.message) {
      EXPECT_NE(message.find(part), message.npos) << message << "\n lacks " << part;
    }
  }
}

TEST(BadLayouts, AnotherDescriptionIsRefused) {
  struct Wrong {
    const char* layout;
    const char* config;
    const char* message;
  };
  const Wrong wrong[] = {
      {"gptq", R"({"quant_method":"gptq","bits":4,"group_size":50})", "group_size (50)"},
      {"gptq", R"({"quant_method":"gptq","bits":8,"group_size":64})", ".qweight"},
      {"gptq", R"({"quant_method":"awq","group_size":64})", ".qweight"},
      {"gptq",
       R"({"quant_method":"gptq","group_size":64,"modules_in_block_to_quantize":[["q_proj"]]})",
       "no quantization of this layer"},
      {"packed", CT("pack-quantized", R"("num_bits":4,"group_size":32)"), ".weight_scale"},
      {"packed_zeros", CT("pack-quantized", R"("num_bits":4,"group_size":32)"),
       "zero points, though config.json says symmetric"},
      {"fp8_tensor", R"({"quant_method":"fp8","weight_block_size":[128,128]})", ".weight_scale"},
      {"float_channel",
       R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["re:.*down.*",)"
       R"("lm_head"],"config_groups":{"a":{"targets":["Linear"],"weights":{"type":"float"}}}})",
       "down_proj.weight\": found f8_e4m3"},
  };
  for (const Wrong& each : wrong) {
    TempDir dir;
    const auto checkpoint = open_with(dir, layout_tensors(case_named(each.layout)), each.config);
    ASSERT_FALSE(checkpoint.ok()) << each.config;
    EXPECT_NE(checkpoint.status().message().find(each.message), std::string::npos)
        << checkpoint.status().message() << "\n lacks " << each.message;
  }
}

// A layer that the description leaves out is plain, whatever way it is named.
TEST(LeftOutLayers, ArePlain) {
  struct Leaves {
    const char* layout;
    const char* config;
    bool accepts;
  };
  const Leaves all[] = {
      {"gptq", R"({"quant_method":"gptq","group_size":64})", false},
      {"gptq", R"({"quant_method":"gptq","group_size":64,"dynamic":{"-:.*\\.down_proj":{}}})",
       true},
      {"gptq",
       R"({"quant_method":"gptq","group_size":64,"modules_in_block_to_quantize":[["q_proj",)"
       R"("k_proj"],["v_proj"],["self_attn.o_proj"],["gate_proj","up_proj"]]})",
       true},
      {"fp8_block",
       R"({"quant_method":"fp8","weight_block_size":[128,128],)"
       R"("modules_to_not_convert":["lm_head","layers.0.mlp.down_proj"]})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"mixed-precision","ignore":)"
       R"(["re:model.*mlp\\.(down|x)_proj$"],"config_groups":{"a":{"targets":["Linear"],)"
       R"("format":"pack-quantized","weights":{"num_bits":4,"group_size":64}}}})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":)"
       R"({"a":{"targets":["re:.*(attn|gate|up).*"],"weights":{"num_bits":4,)"
       R"("group_size":64}}}})",
       true},
      {"packed",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":)"
       R"(["down_proj"],"config_groups":{"a":{"targets":["Linear"],"weights":{"num_bits":)"
       R"(4,"group_size":64}}}})",
       false},
  };
  for (const Leaves& each : all) {
    std::vector<StoredTensor> tensors;
    for (StoredTensor& tensor : layout_tensors(case_named(each.layout))) {
      if (!tensor.name.starts_with(kDown)) tensors.push_back(std::move(tensor));
    }
    for (StoredTensor& tensor : toy_tensors(layout_spec())) {
      if (tensor.name.starts_with(kDown)) tensors.push_back(std::move(tensor));
    }
    TempDir dir;
    const auto checkpoint = open_with(dir, tensors, each.config);
    EXPECT_EQ(checkpoint.ok(), each.accepts) << each.config << checkpoint.status().message();
    if (!checkpoint.ok()) continue;
    EXPECT_EQ(checkpoint->weight({ModuleKind::kDown, 0})->parts, nullptr);
    EXPECT_NE(checkpoint->weight({ModuleKind::kUp, 0})->parts, nullptr);
  }
}

TEST(GemvFast, AZeroThatIsNoWholeNumberGivesNan) {
  const LayoutCase& test = case_named("gemv_fast");
  auto tensors = layout_tensors(test);
  for (StoredTensor& tensor : tensors) {
    if (tensor.name != std::string(kDown) + ".qzeros") continue;
    const f16 infinite = to_f16(std::numeric_limits<float>::infinity());
    std::memcpy(tensor.bytes.data(), &infinite, sizeof infinite);
  }
  TempDir dir;
  const auto checkpoint = open_with(dir, tensors, test.config);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  float values[65];
  widen(*checkpoint->weight({ModuleKind::kDown, 0}), 0, 65, values);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[63]));
  EXPECT_FALSE(std::isnan(values[64]));
}

TEST(NamePattern, MatchesAsPythonDoes) {
  struct Match {
    const char* pattern;
    const char* name;
    bool in_full;
    bool matches;
  };
  const Match all[] = {
      {"lm_head", "lm_head", true, true},
      {"down_proj", "model.layers.0.mlp.down_proj", true, false},
      {"down_proj", "model.layers.0.mlp.down_proj", false, true},
      {"", "lm_head", false, false},
      {"re:.*down_proj", "model.layers.0.mlp.down_proj", true, true},
      {"re:down_proj", "model.layers.0.mlp.down_proj", true, false},  // from the first character
      {"re:model.layers.1", "model.layers.10.mlp", true, true},       // to any
      {"re:model.layers.1$", "model.layers.10", true, false},
      {R"(re:model\.layers\.\d+\.mlp)", "model.layers.10.mlp", true, true},
      {R"(re:model\.layers\.[2-9]\.)", "model.layers.1.mlp", true, false},
      {R"(re:.*[^x]_proj)", "a.q_proj", true, true},
      {"re:.*(q|k|v)_proj$", "a.v_proj", true, true},
      {"re:.*(?:q|k)_proj$", "a.v_proj", true, false},
      {"re:(?!.*mlp).*", "model.layers.0.mlp", true, false},
      {"re:(?!.*mlp).*", "model.layers.0.attn", true, true},
      {"re:(?=.*mlp)model", "model.layers.0.mlp", true, true},
      {"re:mo?del+.*?x?", "modell", true, true},
      {"re:(a*)*(a*)*(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true, false},
  };
  for (const Match& each : all) {
    EXPECT_TRUE(is_readable_pattern(each.pattern)) << each.pattern;
    EXPECT_EQ(matches_layer(each.pattern, each.name, each.in_full), each.matches)
        << each.pattern << " " << each.name;
  }
  for (const char* pattern : {"re:a{2}", "re:(a", "re:a)", "re:[a", "re:*a", "re:a**", R"(re:\1)",
                              R"(re:a\)", "re:(?<=a)b", "re:(?P<n>a)"}) {
    EXPECT_FALSE(is_readable_pattern(pattern)) << pattern;
    EXPECT_FALSE(matches_layer(pattern, "model.layers.0.self_attn.q_proj", true)) << pattern;
  }
}

}  // namespace
}  // namespace forerun
