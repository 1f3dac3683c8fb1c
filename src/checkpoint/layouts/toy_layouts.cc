#include "checkpoint/layouts/toy_layouts.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/dtype.h"

namespace forerun {
namespace {

uint32_t random_bits(uint64_t seed, int64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(index) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 31;
  x *= 0x94d049bb133111ebu;
  return static_cast<uint32_t>(x >> 32);
}

// A writer of a tensor that is assembled field by field.
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

// Returns the positions of 32 inputs in AutoAWQ's pack_intweight: two reshapes with their
// transpositions.
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
  return second;  // position to input
}

void write_awq(const std::string& name, const ToyLayer& layer, std::vector<StoredTensor>& to) {
  constexpr int kColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int64_t out = layer.out, in = layer.in;
  const char* const dtype = layer.layout.scale_dtype;
  if (layer.layout.packing == ToyPacking::kGemm) {
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
  // This is AutoAWQ's calculate_zeros_width().
  const int64_t multiplier = layer.group == 64 ? 2 : layer.group == 32 ? 4 : 1;
  const int64_t words = ((layer.groups + 7) / 8 + multiplier - 1) / multiplier * multiplier;
  if (layer.layout.packing == ToyPacking::kGemv) {
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

void write_gptq(const std::string& name, const ToyLayer& layer, std::vector<StoredTensor>& to) {
  const int64_t out = layer.out, in = layer.in, per = 32 / layer.layout.bits;
  const char* const dtype = layer.layout.scale_dtype;
  Writer q(name + ".qweight", "I32", 4, {in / per, out});
  Writer z(name + ".qzeros", "I32", 4, {layer.groups, out / per});
  Writer s(name + ".scales", dtype, float_bytes(dtype), {layer.groups, out});
  Writer order(name + ".g_idx", "I32", 4, {in});
  const int bits = layer.layout.bits;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      q.put(i / per * out + o, i % per * bits, bits, layer.quant(o, i));
    }
    for (int64_t g = 0; g < layer.groups; ++g) {
      z.put(g * out / per, o * bits, bits,
            static_cast<uint32_t>(layer.zero(o, g) - layer.layout.added_zero));
      s.put_float(g * out + o, dtype, layer.scale(o, g));
    }
  }
  for (int64_t i = 0; i < in; ++i) order.put(i, 0, 32, static_cast<uint32_t>(layer.group_of(i)));
  // AutoGPTQ writes a bias of zeros for layers without a bias.
  const Writer bias(name + ".bias", "F16", 2, {out});
  to.insert(to.end(), {q.tensor, z.tensor, s.tensor, order.tensor, bias.tensor});
}

void write_compressed(const std::string& name, const ToyLayer& layer,
                      std::vector<StoredTensor>& to) {
  const int64_t out = layer.out, in = layer.in;
  const int bits = layer.layout.bits;
  const char* const dtype = layer.layout.scale_dtype;
  const bool is_packed = layer.layout.packing == ToyPacking::kPacked;
  std::vector<int64_t> scales = {out, layer.groups};
  if (layer.layout.scale_rank == 1) scales = {1};
  Writer s(name + ".weight_scale", dtype, float_bytes(dtype), scales);
  const int64_t per = 32 / bits;
  const int64_t row_words = (in + per - 1) / per;
  Writer q = is_packed ? Writer(name + ".weight_packed", "I32", 4, {out, row_words})
                       : Writer(name + ".weight", "I8", 1, {out, in});
  const bool packs_zeros = is_packed && !layer.layout.has_byte_zeros;
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
      s.put_float(layer.layout.scale_rank == 1 ? 0 : o * layer.groups + g, dtype,
                  layer.scale(o, g));
      const auto zero = static_cast<uint32_t>(layer.zero(o, g));
      if (packs_zeros) {
        z.put(o / per * layer.groups + g, o % per * bits, bits, zero);
      } else {
        z.put(o * layer.groups + g, 0, 8, zero - (1u << (bits - 1)));
      }
    }
    if (layer.layout.scale_rank == 1) break;
  }
  if (layer.layout.scale_rank == 1) {
    for (int64_t o = 1; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) q.put(o * in + i, 0, 8, layer.quant(o, i) - 128u);
    }
  }
  to.insert(to.end(), {q.tensor, s.tensor});
  if (layer.layout.has_zeros) to.push_back(z.tensor);
  Writer shape(name + ".weight_shape", "I64", 8, {2});
  shape.put(0, 0, 32, static_cast<uint32_t>(out));
  shape.put(1, 0, 32, static_cast<uint32_t>(in));
  if (is_packed) to.push_back(shape.tensor);
  Writer order(name + ".weight_g_idx", "I32", 4, {in});
  for (int64_t i = 0; i < in; ++i) order.put(i, 0, 32, static_cast<uint32_t>(layer.group_of(i)));
  if (layer.layout.has_order) to.push_back(order.tensor);
}

void write_fp8(const std::string& name, const ToyLayer& layer, std::vector<StoredTensor>& to) {
  const ToyLayout& layout = layer.layout;
  Writer q(name + ".weight", "F8_E4M3", 1, {layer.out, layer.in});
  for (int64_t at = 0; at < layer.out * layer.in; ++at) {
    q.put(at, 0, 8, layer.quant(at / layer.in, at % layer.in));
  }
  std::vector<int64_t> shape = {layer.out, 1};
  if (layout.scale_rank == 0) shape = {};
  if (layout.scale_rank == 1) shape = {1};
  const bool is_blocks = layout.group == 128;
  if (is_blocks) shape = {(layer.out + 127) / 128, (layer.in + 127) / 128};
  Writer s(name + (layout.is_inverse_name ? ".weight_scale_inv" : ".weight_scale"),
           layout.scale_dtype, float_bytes(layout.scale_dtype), shape);
  const int64_t rows = shape.size() == 2 ? shape[0] : 1;
  const int64_t columns = is_blocks ? shape[1] : 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      s.put_float(row * columns + column, layout.scale_dtype, layer.scale(row, column));
    }
  }
  Writer input(name + ".input_scale", "F32", 4, {});
  input.put_float(0, "F32", 0.5f);
  to.insert(to.end(), {q.tensor, s.tensor, input.tensor});
}

// clang-format off
#define CT(format, weights) R"({"quant_method":"compressed-tensors","format":")" format \
  R"(","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{)" weights "}}}}"
const ToyLayout kToyLayouts[] = {
    {.name = "gemm", .packing = ToyPacking::kGemm, .config = R"({"quant_method":"awq","bits":4,"group_size":64,"version":"gemm"})", .expected = "awq-int4"},
    {.name = "gemm_channel", .packing = ToyPacking::kGemm, .group = 0, .scale_dtype = "BF16", .config = R"({"quant_method":"awq","bits":4,"group_size":-1})", .expected = "awq-int4"},
    {.name = "gemv", .packing = ToyPacking::kGemv, .config = R"({"quant_method":"awq","group_size":64,"version":"GEMV"})", .expected = "awq-gemv-int4"},
    {.name = "gemv_32", .packing = ToyPacking::kGemv, .group = 32, .config = R"({"quant_method":"awq","group_size":32,"version":"gemv"})", .expected = "awq-gemv-int4"},
    {.name = "gemv_fast", .packing = ToyPacking::kGemvFast, .config = R"({"quant_method":"awq","group_size":64,"version":"gemv_fast"})", .expected = "awq-gemv-fast-int4"},
    {.name = "gptq", .packing = ToyPacking::kGptq, .added_zero = 1, .config = R"({"quant_method":"gptq","bits":4,"group_size":64,"sym":false,"desc_act":false})", .expected = "gptq-int4"},
    {.name = "gptq_v2", .packing = ToyPacking::kGptq, .group = 32, .config = R"({"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"gptq_v2"})", .expected = "gptq-int4"},
    {.name = "gptq_8", .packing = ToyPacking::kGptq, .bits = 8, .group = 0, .added_zero = 1, .scale_dtype = "BF16", .config = R"({"quant_method":"gptq","bits":8,"group_size":-1})", .expected = "gptq-int8"},
    {.name = "gptq_sorted", .packing = ToyPacking::kGptq, .group = 32, .added_zero = 1, .has_order = true, .config = R"({"quant_method":"gptq","bits":4,"group_size":32,"desc_act":true})", .expected = "gptq-int4"},
    {.name = "gptq_8_sorted", .packing = ToyPacking::kGptq, .bits = 8, .has_order = true, .scale_dtype = "F32", .config = R"({"quant_method":"gptq","bits":8,"group_size":64,"desc_act":true,"format":"gptq_v2"})", .expected = "gptq-int8"},
    {.name = "gptq_middle_zeros", .packing = ToyPacking::kGptq, .group = 32, .has_middle_zeros = true, .added_zero = 1, .config = R"({"quant_method":"gptq","bits":4,"group_size":32,"sym":true})", .expected = "gptq-int4"},
    {.name = "gptq_8_groups", .packing = ToyPacking::kGptq, .bits = 8, .added_zero = 1, .config = R"({"quant_method":"gptq","bits":8,"group_size":64})", .expected = "gptq-int8"},
    {.name = "gptq_8_short_scales", .packing = ToyPacking::kGptq, .bits = 8, .added_zero = 1, .scale_dtype = "F32", .config = R"({"quant_method":"gptq","bits":8,"group_size":64})", .expected = "gptq-int8", .has_short_scales = true},
    {.name = "packed", .packing = ToyPacking::kPacked, .has_zeros = false, .scale_dtype = "BF16", .config = CT("pack-quantized", R"("num_bits":4,"strategy":"group","group_size":64)"), .expected = "ct-int4"},
    {.name = "packed_zeros", .packing = ToyPacking::kPacked, .group = 32, .config = CT("pack-quantized", R"("num_bits":4,"group_size":32,"symmetric":false)"), .expected = "ct-int4"},
    {.name = "packed_byte_zeros", .packing = ToyPacking::kPacked, .config = CT("pack-quantized", R"("num_bits":4,"group_size":64,"symmetric":false)"), .expected = "ct-int4", .has_byte_zeros = true},
    {.name = "packed_bf16", .packing = ToyPacking::kPacked, .group = 32, .has_zeros = false, .scale_dtype = "BF16", .config = CT("pack-quantized", R"("num_bits":4,"group_size":32)"), .expected = "ct-int4"},
    {.name = "packed_8", .packing = ToyPacking::kPacked, .bits = 8, .group = 32, .has_zeros = false, .config = CT("pack-quantized", R"("num_bits":8,"group_size":32)"), .expected = "ct-int8"},
    {.name = "packed_8_channel", .packing = ToyPacking::kPacked, .bits = 8, .group = 0, .config = CT("pack-quantized", R"("num_bits":8,"strategy":"channel","symmetric":false)"), .expected = "ct-int8"},
    {.name = "packed_sorted", .packing = ToyPacking::kPacked, .group = 32, .has_zeros = false, .has_order = true, .config = CT("pack-quantized", R"("num_bits":4,"group_size":32,"actorder":"group")"), .expected = "ct-int4"},
    {.name = "bytes", .packing = ToyPacking::kBytes, .bits = 8, .group = 0, .has_zeros = false, .config = CT("int-quantized", R"("num_bits":8,"strategy":"channel"},"input_activations":{"num_bits":8,"dynamic":true)"), .expected = "ct-int8"},
    {.name = "bytes_zeros", .packing = ToyPacking::kBytes, .bits = 8, .group = 0, .scale_dtype = "F32", .config = CT("naive-quantized", R"("num_bits":8,"strategy":"channel","symmetric":false)"), .expected = "ct-int8"},
    {.name = "bytes_tensor", .packing = ToyPacking::kBytes, .bits = 8, .group = 0, .has_zeros = false, .config = CT("int-quantized", R"("num_bits":8,"strategy":"tensor")"), .scale_rank = 1, .expected = "ct-int8"},
    {.name = "float_channel", .packing = ToyPacking::kFp8, .bits = 8, .group = 0, .scale_dtype = "BF16", .config = CT("float-quantized", R"("num_bits":8,"type":"float","strategy":"channel")"), .expected = "fp8"},
    {.name = "float_block", .packing = ToyPacking::kFp8, .bits = 8, .group = 128, .scale_dtype = "BF16", .config = CT("naive-quantized", R"("num_bits":8,"type":"float","strategy":"block","block_structure":[128,128])"), .expected = "fp8"},
    {.name = "fp8_tensor", .packing = ToyPacking::kFp8, .bits = 8, .group = 0, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","activation_scheme":"static"})", .scale_rank = 0, .expected = "fp8"},
    {.name = "fp8_tensor_1", .packing = ToyPacking::kFp8, .bits = 8, .group = 0, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","ignored_layers":["lm_head"]})", .scale_rank = 1, .expected = "fp8"},
    {.name = "fp8_block", .packing = ToyPacking::kFp8, .bits = 8, .group = 128, .scale_dtype = "F32", .config = R"({"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]})", .expected = "fp8", .is_inverse_name = true},
};
// clang-format on

}  // namespace

std::span<const ToyLayout> toy_layouts() { return kToyLayouts; }

const ToyLayout& toy_layout(std::string_view name) {
  for (const ToyLayout& layout : kToyLayouts) {
    if (layout.name == name) return layout;
  }
  std::fprintf(stderr, "no toy layout %.*s\n", static_cast<int>(name.size()), name.data());
  std::abort();
}

uint32_t ToyLayer::quant(int64_t o, int64_t i) const {
  const int64_t index = o * in + i;
  const uint32_t other = random_bits(perturbed_seed, index);
  const bool is_other = static_cast<float>(other >> 8) < perturbation * 0x1p24f;
  const uint32_t bits = (is_other ? other : random_bits(seed, index)) & ((1u << layout.bits) - 1u);
  const bool is_nan = layout.packing == ToyPacking::kFp8 && (bits & 127u) == 127u;
  return is_nan ? bits - 1 : bits;
}

int ToyLayer::zero(int64_t o, int64_t g) const {
  if (!layout.has_zeros || layout.has_middle_zeros) return 1 << (layout.bits - 1);
  // With the convention that adds one, a zero may reach 2^bits.
  return static_cast<int>(random_bits(seed + 1, o * groups + g) & ((1u << layout.bits) - 1u)) +
         layout.added_zero;
}

float ToyLayer::scale(int64_t o, int64_t g) const {
  const int64_t which = layout.scale_rank < 2 ? 0 : o * groups + g;
  // The spread of quants and codes; scales are divided by it, so that outputs are as large as
  // inputs.
  const float spread = layout.packing == ToyPacking::kFp8 ? 96.0f
                       : layout.bits == 8                 ? 100.0f
                                                          : 6.0f;
  const float factor = 0.5f + static_cast<float>(random_bits(seed + 2, which) % 1000) / 1000.0f;
  const float value = factor / (spread * std::sqrt(static_cast<float>(in)));
  const std::string dtype = layout.scale_dtype;
  if (dtype == "F16") return to_float(to_f16(value));
  return dtype == "BF16" || layout.has_short_scales ? round_to_bf16(value) : value;
}

// A multiplier without a factor in common with `in` spreads inputs over groups.
int64_t ToyLayer::group_of(int64_t i) const {
  return (layout.has_order ? (i * 7 + 3) % in : i) / group;
}

float ToyLayer::value(int64_t o, int64_t i) const {
  if (layout.packing != ToyPacking::kFp8) {
    const int64_t g = group_of(i);
    return static_cast<float>(static_cast<int>(quant(o, i)) - zero(o, g)) * scale(o, g);
  }
  const uint32_t code = quant(o, i);
  const int exponent = static_cast<int>(code >> 3 & 15u), mantissa = static_cast<int>(code & 7u);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  const auto weight = static_cast<float>((code & 128u) != 0 ? -magnitude : magnitude);
  return weight * scale(layout.group == 128 ? o / 128 : o, layout.group == 128 ? i / 128 : 0);
}

ToyLayer toy_layer(const ToySpec& spec, std::string_view weight_name, int64_t out, int64_t in) {
  uint64_t seed = spec.seed;
  for (const char c : weight_name) seed = seed * 31 + static_cast<unsigned char>(c);
  ToyLayer layer{.out = out,
                 .in = in,
                 .group = spec.layout->group == 0 ? in : spec.layout->group,
                 .groups = 1,
                 .seed = seed,
                 .perturbation = spec.perturbation,
                 .perturbed_seed = seed + spec.perturbation_seed * 1000,
                 .layout = *spec.layout};
  layer.groups = (in + layer.group - 1) / layer.group;
  return layer;
}

void write_toy_layer(const std::string& module, const ToyLayer& layer,
                     std::vector<StoredTensor>& to) {
  switch (layer.layout.packing) {
    case ToyPacking::kGemm:
    case ToyPacking::kGemv:
    case ToyPacking::kGemvFast:
      return write_awq(module, layer, to);
    case ToyPacking::kGptq:
      return write_gptq(module, layer, to);
    case ToyPacking::kPacked:
    case ToyPacking::kBytes:
      return write_compressed(module, layer, to);
    case ToyPacking::kFp8:
      return write_fp8(module, layer, to);
  }
}

}  // namespace forerun
